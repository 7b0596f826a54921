package standins

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"

	"opdev.io/guestcluster/test/rig/standins/cdi"
	"opdev.io/guestcluster/test/rig/standins/kubevirt"
	"opdev.io/guestcluster/test/rig/standins/loop"
	"opdev.io/guestcluster/test/rig/standins/trust"
	"opdev.io/guestcluster/test/rig/standins/volumes"
)

// Certificate is the name of the stand-ins' server certificate.
const Certificate = "standins"

var routes = schema.GroupVersionResource{Group: "route.openshift.io", Version: "v1", Resource: "routes"}

// Options is where the stand-ins find what they work on.
type Options struct {
	Kubeconfig string
	// Identities is the folder with ca.crt and the stand-ins' certificate.
	Identities string
	Volumes    volumes.Place
	Images     kubevirt.Images
	// Domain is the ingress domain, below which routes without a host get one.
	Domain string
	// Listen is the router's address, Admission that of CDI's webhook.
	Listen    string
	Admission string
}

// Run serves until the context ends.
func Run(ctx context.Context, o Options) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 100, 200
	clients, err := connect(config)
	if err != nil {
		return err
	}
	launchers := rest.CopyConfig(config)
	launchers.Impersonate.UserName = kubevirt.User
	inTheirName, err := kubernetes.NewForConfig(launchers)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	authority, err := os.ReadFile(filepath.Join(o.Identities, "ca.crt"))
	if err != nil {
		return fmt.Errorf("read the authority: %w", err)
	}
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("listen for routes: %w", err)
	}
	defer listener.Close()

	router := newRouter(o.Domain, clients.Dynamic, clients.Watch, clients.Objects)
	storage := volumes.New(o.Volumes, clients.Typed, clients.Watch)
	importer := cdi.New(clients, o.Volumes, authority)
	certificates, err := trust.New(clients.Typed, authority)
	if err != nil {
		return err
	}
	machines := kubevirt.New(clients, inTheirName, o.Images)
	clients.Watch.Start(ctx.Done())
	clients.Objects.Start(ctx.Done())
	clients.Watch.WaitForCacheSync(ctx.Done())
	clients.Objects.WaitForCacheSync(ctx.Done())

	go router.serve(listener)
	var group sync.WaitGroup
	group.Go(func() { loop.Run(ctx, router.changes, router.reconcile) })
	group.Go(func() { loop.Run(ctx, storage.Changes, storage.Reconcile) })
	group.Go(func() { loop.Run(ctx, importer.Changes, importer.Reconcile) })
	group.Go(func() { loop.Run(ctx, machines.Changes, machines.Reconcile) })
	group.Go(func() { certificates.Run(ctx) })
	defer group.Wait()
	return serveAdmission(ctx, o, cdi.Admission{Client: clients.Typed})
}

func connect(config *rest.Config) (cdi.Clients, error) {
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return cdi.Clients{}, fmt.Errorf("make a client: %w", err)
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return cdi.Clients{}, fmt.Errorf("make a client: %w", err)
	}
	events := record.NewBroadcaster()
	events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: typed.CoreV1().Events("")})
	return cdi.Clients{
		Typed: typed, Dynamic: untyped,
		Watch:    informers.NewSharedInformerFactory(typed, 0),
		Objects:  dynamicinformer.NewDynamicSharedInformerFactory(untyped, 0),
		Recorder: events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "rig-standins"}),
	}, nil
}

func serveAdmission(ctx context.Context, o Options, handler http.Handler) error {
	mux := http.NewServeMux()
	mux.Handle("/datavolumes", handler)
	server := &http.Server{Addr: o.Admission, Handler: mux, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	file := filepath.Join(o.Identities, Certificate)
	if err := server.ListenAndServeTLS(file+".crt", file+".key"); ctx.Err() == nil {
		return fmt.Errorf("serve admission: %w", err)
	}
	return nil
}
