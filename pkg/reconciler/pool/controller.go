package pool

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	namespaceinformer "knative.dev/pkg/client/injection/kube/informers/core/v1/namespace"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	client "opdev.io/guestcluster/pkg/client/injection/client"
	instanceinformer "opdev.io/guestcluster/pkg/client/injection/informers/guestcluster/v1alpha1/clusterinstance"
	leaseinformer "opdev.io/guestcluster/pkg/client/injection/informers/guestcluster/v1alpha1/clusterlease"
	poolinformer "opdev.io/guestcluster/pkg/client/injection/informers/guestcluster/v1alpha1/clusterpool"
	bundleinformer "opdev.io/guestcluster/pkg/client/injection/informers/guestcluster/v1alpha1/crcbundle"
	poolreconciler "opdev.io/guestcluster/pkg/client/injection/reconciler/guestcluster/v1alpha1/clusterpool"
	listers "opdev.io/guestcluster/pkg/client/listers/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/reconciler/access"
	"opdev.io/guestcluster/pkg/reconciler/catalog"
	"opdev.io/guestcluster/pkg/reconciler/clocks"
	"opdev.io/guestcluster/pkg/reconciler/index"
)

// NewController wires the pool reconciler to pools, instances, leases, bundles,
// namespaces and the catalog of Pipelines.
func NewController(ctx context.Context, _ configmap.Watcher) *controller.Impl {
	logger := logging.FromContext(ctx)
	pools, instances, leases := poolinformer.Get(ctx), instanceinformer.Get(ctx), leaseinformer.Get(ctx)
	bundles, namespaces := bundleinformer.Get(ctx), namespaceinformer.Get(ctx)
	for _, err := range []error{index.Leases(leases.Informer()), index.Instances(instances.Informer())} {
		if err != nil {
			logger.Fatalw("add indexes", "error", err)
		}
	}
	r := &Reconciler{
		Client:     client.Get(ctx),
		Instances:  instances.Informer().GetIndexer(),
		Leases:     leases.Informer().GetIndexer(),
		Bundles:    bundles.Lister(),
		Namespaces: namespaces.Lister(),
		Access:     access.FromContext(ctx),
		Catalog:    catalog.FromContext(ctx),
		Clock:      clocks.From(ctx),
	}
	impl := poolreconciler.NewImpl(ctx, r, func(*controller.Impl) controller.Options {
		return controller.Options{SkipStatusUpdates: true, FinalizerName: guestcluster.PoolFinalizer}
	})
	r.EnqueueAfter = impl.EnqueueAfter

	resync := func() { impl.GlobalResync(pools.Informer()) }
	if err := r.Catalog.AddHandler(resync); err != nil {
		logger.Fatalw("watch the catalog", "error", err)
	}
	handlers := map[cache.SharedIndexInformer]func(any){
		pools.Informer():      impl.Enqueue,
		instances.Informer():  index.EnqueuePoolOfInstance(impl.EnqueueKey),
		leases.Informer():     index.EnqueuePoolOfLease(impl.EnqueueKey),
		bundles.Informer():    enqueuePoolsOfBundle(impl.EnqueueKey, pools.Lister()),
		namespaces.Informer(): func(obj any) { r.enqueuePoolsOf(impl, pools.Lister(), obj) },
	}
	for informer, handle := range handlers {
		if _, err := informer.AddEventHandler(controller.HandleAll(handle)); err != nil {
			logger.Fatalw("add event handler", "error", err)
		}
	}
	return impl
}

// enqueuePoolsOf wakes the pools of a namespace whose label may have changed.
func (r *Reconciler) enqueuePoolsOf(impl *controller.Impl, pools listers.ClusterPoolLister, obj any) {
	namespace, ok := index.FinalState(obj).(*corev1.Namespace)
	if !ok {
		return
	}
	found, err := pools.ClusterPools(namespace.Name).List(labels.Everything())
	if err != nil {
		return
	}
	for _, p := range found {
		impl.Enqueue(p)
	}
}
