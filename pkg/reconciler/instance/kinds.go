package instance

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/controller"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/reconciler/catalog"
)

var (
	machineGVR    = schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachines"}
	runningGVR    = schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachineinstances"}
	dataVolumeGVR = schema.GroupVersionResource{Group: "cdi.kubevirt.io", Version: "v1beta1", Resource: "datavolumes"}
)

// optional are the kinds that a cluster may not serve, with the label that
// those of instances carry: a cluster may have many other machines.
var optional = map[schema.GroupVersionResource]string{
	machineGVR: guestcluster.InstanceUIDLabel, runningGVR: guestcluster.EndpointLabel,
	dataVolumeGVR: guestcluster.InstanceUIDLabel, routeGVR: guestcluster.InstanceUIDLabel,
}

// kinds watches those of the optional kinds that the cluster serves. What it
// knows may be old or missing: whatever leads to a write is read live.
type kinds struct {
	discovery catalog.Discovery
	client    dynamic.Interface
	// namespace is the only one that is watched; empty is all.
	namespace string
	// changed is called with objects that changed, appeared when a kind is served anew.
	changed  func(schema.GroupVersionResource, *unstructured.Unstructured)
	appeared func()

	mu       sync.RWMutex
	watching map[schema.GroupVersionResource]watching
}

type watching struct {
	informer cache.SharedIndexInformer
	stop     context.CancelFunc
}

// run looks for new and lost kinds until ctx ends.
func (k *kinds) run(ctx context.Context, every time.Duration) {
	k.look(ctx)
	go wait.UntilWithContext(ctx, k.look, every)
}

// look starts and stops watches. An API server that does not answer changes nothing.
func (k *kinds) look(ctx context.Context) {
	for gvr := range optional {
		list, err := k.discovery.ServerResourcesForGroupVersion(gvr.GroupVersion().String())
		switch {
		case apierrors.IsNotFound(err):
			k.stop(gvr)
		case err != nil:
		case serves(list, gvr.Resource):
			k.start(ctx, gvr)
		default:
			k.stop(gvr)
		}
	}
}

func serves(list *metav1.APIResourceList, resource string) bool {
	for _, r := range list.APIResources {
		if r.Name == resource {
			return true
		}
	}
	return false
}

func (k *kinds) start(ctx context.Context, gvr schema.GroupVersionResource) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.watching[gvr]; ok || ctx.Err() != nil {
		return
	}
	ctx, stop := context.WithCancel(ctx)
	informer := dynamicinformer.NewFilteredDynamicInformer(k.client, gvr, k.namespace, controller.GetResyncPeriod(ctx),
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
		func(o *metav1.ListOptions) { o.LabelSelector = optional[gvr] }).Informer()
	// Neither fails before the informer was started.
	_ = informer.SetTransform(trim)
	_, _ = informer.AddEventHandler(k.handler(gvr))
	if k.watching == nil {
		k.watching = map[schema.GroupVersionResource]watching{}
	}
	k.watching[gvr] = watching{informer, stop}
	go func() {
		informer.RunWithContext(ctx)
		stop()
	}()
	go k.appeared()
}

func (k *kinds) stop(gvr schema.GroupVersionResource) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if w, ok := k.watching[gvr]; ok {
		w.stop()
		delete(k.watching, gvr)
	}
}

func (k *kinds) handler(gvr schema.GroupVersionResource) cache.ResourceEventHandler {
	tell := func(obj any) {
		if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = last.Obj
		}
		if object, ok := obj.(*unstructured.Unstructured); ok {
			k.changed(gvr, object)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: tell, DeleteFunc: tell,
		UpdateFunc: func(before, after any) {
			if differs(before, after) {
				tell(after)
			}
		},
	}
}

// get returns what the watch last saw, or nil.
func (k *kinds) get(gvr schema.GroupVersionResource, namespace, name string) *unstructured.Unstructured {
	k.mu.RLock()
	w, ok := k.watching[gvr]
	k.mu.RUnlock()
	if !ok || !w.informer.HasSynced() {
		return nil
	}
	object, found, err := w.informer.GetIndexer().GetByKey(namespace + "/" + name)
	if err != nil || !found {
		return nil
	}
	seen, _ := object.(*unstructured.Unstructured)
	return seen
}
