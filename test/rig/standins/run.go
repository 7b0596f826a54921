package standins

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
)

var routes = schema.GroupVersionResource{Group: "route.openshift.io", Version: "v1", Resource: "routes"}

// Options is where the stand-ins find what they work on.
type Options struct {
	Kubeconfig string
	// Volumes is the folder of the volumes' directories.
	Volumes string
	// Node is the node that has the folder.
	Node string
	// Domain is the ingress domain, below which routes without a host get one.
	Domain string
	// Listen is the router's address.
	Listen string
}

// Run serves until the context ends.
func Run(ctx context.Context, o Options) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 100, 200
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("listen for routes: %w", err)
	}
	defer listener.Close()

	typed := informers.NewSharedInformerFactory(client, 0)
	untyped := dynamicinformer.NewDynamicSharedInformerFactory(dynamicClient, 0)
	router := newRouter(o.Domain, dynamicClient, typed, untyped)
	volumes := newProvisioner(o, client, typed)
	typed.Start(ctx.Done())
	untyped.Start(ctx.Done())
	typed.WaitForCacheSync(ctx.Done())
	untyped.WaitForCacheSync(ctx.Done())

	go router.serve(listener)
	done := make(chan error, 2)
	go func() { done <- settle(ctx, router.changes, router.reconcile) }()
	go func() { done <- settle(ctx, volumes.changes, volumes.reconcile) }()
	return errors.Join(<-done, <-done)
}

// changes wakes a loop; many changes wake it once.
type changes chan struct{}

func newChanges() changes { return make(changes, 1) }

func (c changes) notify() {
	select {
	case c <- struct{}{}:
	default:
	}
}

// OnAdd, OnUpdate and OnDelete make changes an informer's event handler.
func (c changes) OnAdd(any, bool)   { c.notify() }
func (c changes) OnUpdate(any, any) { c.notify() }
func (c changes) OnDelete(any)      { c.notify() }

// settle runs a pass over the whole world after every change, and again with
// growing delay after a failure.
func settle(ctx context.Context, wake changes, pass func(context.Context) error) error {
	backoff := workqueue.NewTypedItemExponentialFailureRateLimiter[string](200*time.Millisecond, 5*time.Second)
	for {
		if err := pass(ctx); err != nil {
			fmt.Println(time.Now().Format(time.TimeOnly), err)
			time.AfterFunc(backoff.When(""), wake.notify)
		} else {
			backoff.Forget("")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		}
	}
}
