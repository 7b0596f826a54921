package binding

import (
	"context"

	tektonclient "github.com/tektoncd/pipeline/pkg/client/injection/client"
	pipelineruninformer "github.com/tektoncd/pipeline/pkg/client/injection/informers/pipeline/v1/pipelinerun"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	namespaceinformer "knative.dev/pkg/client/injection/kube/informers/core/v1/namespace"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/reconciler"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	client "opdev.io/guestcluster/pkg/client/injection/client"
	instanceinformer "opdev.io/guestcluster/pkg/client/injection/informers/guestcluster/v1alpha1/clusterinstance"
	leaseinformer "opdev.io/guestcluster/pkg/client/injection/informers/guestcluster/v1alpha1/clusterlease"
	poolinformer "opdev.io/guestcluster/pkg/client/injection/informers/guestcluster/v1alpha1/clusterpool"
	"opdev.io/guestcluster/pkg/reconciler/access"
	"opdev.io/guestcluster/pkg/reconciler/clocks"
	"opdev.io/guestcluster/pkg/reconciler/event"
	"opdev.io/guestcluster/pkg/reconciler/holder"
	"opdev.io/guestcluster/pkg/reconciler/index"
)

// queueName is part of the election Lease's name: unique among our controllers.
const queueName = "guestcluster-binding"

// NewController wires the binding to pools, leases, instances and namespaces.
func NewController(ctx context.Context, _ configmap.Watcher) *controller.Impl {
	logger := logging.FromContext(ctx)
	leases, instances, pools := leaseinformer.Get(ctx), instanceinformer.Get(ctx), poolinformer.Get(ctx)
	namespaces := namespaceinformer.Get(ctx)
	for _, err := range []error{index.Leases(leases.Informer()), index.Instances(instances.Informer())} {
		if err != nil {
			logger.Fatalw("add indexes", "error", err)
		}
	}
	r := &Reconciler{
		Client:     client.Get(ctx),
		Pools:      pools.Lister(),
		Leases:     leases.Informer().GetIndexer(),
		Instances:  instances.Informer().GetIndexer(),
		Namespaces: namespaces.Lister(),
		Access:     access.FromContext(ctx),
		Holders:    &holder.Checker{Client: tektonclient.Get(ctx), Lister: pipelineruninformer.Get(ctx).Lister()},
		Clock:      clocks.From(ctx),
		Events:     event.NewRecorder(ctx, queueName),
	}
	r.PromoteFunc = r.enqueueAll
	impl := controller.NewContext(ctx, r, controller.ControllerOptions{WorkQueueName: queueName, Logger: logger})
	r.EnqueueAfter = impl.EnqueueKeyAfter

	handlers := map[cache.SharedIndexInformer]func(any){
		pools.Informer():      impl.Enqueue,
		leases.Informer():     index.EnqueuePoolOfLease(impl.EnqueueKey),
		instances.Informer():  index.EnqueuePoolOfInstance(impl.EnqueueKey),
		namespaces.Informer(): func(any) { impl.FilteredGlobalResync(hasWaiting(leases.Informer().GetIndexer()), pools.Informer()) },
	}
	for informer, handle := range handlers {
		if _, err := informer.AddEventHandler(controller.HandleAll(handle)); err != nil {
			logger.Fatalw("add event handler", "error", err)
		}
	}
	return impl
}

// hasWaiting keeps label changes of namespaces from waking pools that nobody waits for.
func hasWaiting(leases cache.Indexer) func(any) bool {
	return func(obj any) bool {
		pool, ok := obj.(*v1alpha1.ClusterPool)
		if !ok {
			return false
		}
		found, err := index.LeasesOfPool(leases, pool.Namespace+"/"+pool.Name)
		if err != nil {
			return false
		}
		for _, l := range found {
			if waits(l) {
				return true
			}
		}
		return false
	}
}

// enqueueAll looks at every pool that exists or is waited for, on promotion.
func (r *Reconciler) enqueueAll(bucket reconciler.Bucket, enqueue func(reconciler.Bucket, types.NamespacedName)) error {
	pools, err := r.Pools.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, p := range pools {
		enqueue(bucket, types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
	}
	for _, obj := range r.Leases.List() {
		if l, ok := obj.(*v1alpha1.ClusterLease); ok {
			enqueue(bucket, types.NamespacedName{Namespace: l.PoolNamespace(), Name: l.Spec.PoolRef.Name})
		}
	}
	return nil
}
