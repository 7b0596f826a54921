package lease

import (
	"context"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	tektonclient "github.com/tektoncd/pipeline/pkg/client/injection/client"
	pipelineruninformer "github.com/tektoncd/pipeline/pkg/client/injection/informers/pipeline/v1/pipelinerun"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	kubeclient "knative.dev/pkg/client/injection/kube/client"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	client "opdev.io/guestcluster/pkg/client/injection/client"
	instanceinformer "opdev.io/guestcluster/pkg/client/injection/informers/guestcluster/v1alpha1/clusterinstance"
	leaseinformer "opdev.io/guestcluster/pkg/client/injection/informers/guestcluster/v1alpha1/clusterlease"
	poolinformer "opdev.io/guestcluster/pkg/client/injection/informers/guestcluster/v1alpha1/clusterpool"
	leasereconciler "opdev.io/guestcluster/pkg/client/injection/reconciler/guestcluster/v1alpha1/clusterlease"
	"opdev.io/guestcluster/pkg/reconciler/clocks"
	"opdev.io/guestcluster/pkg/reconciler/holder"
	"opdev.io/guestcluster/pkg/reconciler/index"
	"opdev.io/guestcluster/pkg/reconciler/metrics"
)

// NewController wires the lease reconciler to leases, their holders, instances and pools.
func NewController(ctx context.Context, _ configmap.Watcher) *controller.Impl {
	logger := logging.FromContext(ctx)
	leases, instances, runs := leaseinformer.Get(ctx), instanceinformer.Get(ctx), pipelineruninformer.Get(ctx)
	if err := index.Leases(leases.Informer()); err != nil {
		logger.Fatalw("add lease indexes", "error", err)
	}
	r := &Reconciler{
		Client:    client.Get(ctx),
		Kube:      kubeclient.Get(ctx),
		Instances: instances.Lister(),
		Pools:     poolinformer.Get(ctx).Lister(),
		Holders:   &holder.Checker{Client: tektonclient.Get(ctx), Lister: runs.Lister()},
		Clock:     clocks.From(ctx),
		Metrics:   metrics.New(ctx),
	}
	impl := leasereconciler.NewImpl(ctx, r, func(*controller.Impl) controller.Options {
		return controller.Options{SkipStatusUpdates: true, FinalizerName: guestcluster.LeaseFinalizer}
	})
	r.EnqueueAfter = impl.EnqueueAfter

	handlers := map[cache.SharedIndexInformer]func(any){
		leases.Informer():    impl.Enqueue,
		instances.Informer(): enqueueInstanceLeases(impl, leases.Informer().GetIndexer()),
		runs.Informer():      enqueueHeldLeases(impl, leases.Informer().GetIndexer()),
	}
	for informer, handle := range handlers {
		if _, err := informer.AddEventHandler(controller.HandleAll(handle)); err != nil {
			logger.Fatalw("add event handler", "error", err)
		}
	}
	if _, err := leases.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: r.countDeleted(ctx)}); err != nil {
		logger.Fatalw("add event handler", "error", err)
	}
	if _, err := poolinformer.Get(ctx).Informer().AddEventHandler(policyHandler(impl, leases.Informer().GetIndexer())); err != nil {
		logger.Fatalw("add event handler", "error", err)
	}
	return impl
}

// policyHandler wakes a pool's leases when its spec changed: limits may have.
func policyHandler(impl *controller.Impl, leases cache.Indexer) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{UpdateFunc: func(before, after any) {
		old, okOld := before.(*v1alpha1.ClusterPool)
		pool, ok := after.(*v1alpha1.ClusterPool)
		if ok && okOld && old.Generation != pool.Generation {
			enqueueLeases(impl, leases, index.LeasesOfPool, pool.Namespace+"/"+pool.Name)
		}
	}}
}

// enqueueInstanceLeases wakes the lease that claims an instance and those that name it.
func enqueueInstanceLeases(impl *controller.Impl, leases cache.Indexer) func(any) {
	return func(obj any) {
		instance, ok := index.FinalState(obj).(*v1alpha1.ClusterInstance)
		if !ok {
			return
		}
		if c := instance.Spec.ClaimRef; c != nil {
			impl.EnqueueKey(types.NamespacedName{Namespace: c.LeaseNamespace, Name: c.LeaseName})
		}
		enqueueLeases(impl, leases, index.LeasesOfInstance, string(instance.UID))
	}
}

// enqueueHeldLeases wakes the leases of a PipelineRun when it ends or goes.
func enqueueHeldLeases(impl *controller.Impl, leases cache.Indexer) func(any) {
	return func(obj any) {
		run, ok := index.FinalState(obj).(*pipelinev1.PipelineRun)
		if ok {
			enqueueLeases(impl, leases, index.LeasesOfHolder, string(run.UID))
		}
	}
}

func enqueueLeases(impl *controller.Impl, leases cache.Indexer, find func(cache.Indexer, string) ([]*v1alpha1.ClusterLease, error), uid string) {
	found, err := find(leases, uid)
	if err != nil {
		return
	}
	for _, l := range found {
		impl.EnqueueKey(types.NamespacedName{Namespace: l.Namespace, Name: l.Name})
	}
}
