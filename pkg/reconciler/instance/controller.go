package instance

import (
	"context"

	pipelineclient "github.com/tektoncd/pipeline/pkg/client/injection/client"
	pipelineruninformer "github.com/tektoncd/pipeline/pkg/client/injection/informers/pipeline/v1/pipelinerun"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	kubeclient "knative.dev/pkg/client/injection/kube/client"
	namespaceinformer "knative.dev/pkg/client/injection/kube/informers/core/v1/namespace"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/injection/clients/dynamicclient"
	"knative.dev/pkg/logging"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	client "opdev.io/guestcluster/pkg/client/injection/client"
	instanceinformer "opdev.io/guestcluster/pkg/client/injection/informers/guestcluster/v1alpha1/clusterinstance"
	leaseinformer "opdev.io/guestcluster/pkg/client/injection/informers/guestcluster/v1alpha1/clusterlease"
	poolinformer "opdev.io/guestcluster/pkg/client/injection/informers/guestcluster/v1alpha1/clusterpool"
	bundleinformer "opdev.io/guestcluster/pkg/client/injection/informers/guestcluster/v1alpha1/crcbundle"
	instancereconciler "opdev.io/guestcluster/pkg/client/injection/reconciler/guestcluster/v1alpha1/clusterinstance"
	"opdev.io/guestcluster/pkg/reconciler/access"
	"opdev.io/guestcluster/pkg/reconciler/metrics"
)

// NewController makes the instance controller.
func NewController(ctx context.Context, _ configmap.Watcher) *controller.Impl {
	config := configFrom(ctx)
	if config.Catalog == nil {
		logging.FromContext(ctx).Fatal("no catalog: call catalog.WithCatalog before the controller is made")
	}
	if config.Access == nil {
		config.Access = access.New(kubeclient.Get(ctx).AuthorizationV1().SelfSubjectAccessReviews(), config.Clock)
	}
	r := &Reconciler{
		client: client.Get(ctx), kube: kubeclient.Get(ctx), tekton: pipelineclient.Get(ctx), dynamic: dynamicclient.Get(ctx),
		instances: instanceinformer.Get(ctx).Lister(), leases: leaseinformer.Get(ctx).Lister(),
		pools: poolinformer.Get(ctx).Lister(), bundles: bundleinformer.Get(ctx).Lister(), namespaces: namespaceinformer.Get(ctx).Lister(), runs: pipelineruninformer.Get(ctx).Lister(),
		catalog: config.Catalog, access: config.Access, domain: config.IngressDomain, clock: config.Clock,
		metrics: metrics.New(ctx), repaired: newTimes(), revoked: newTimes(), looked: newTimes(),
	}
	impl := instancereconciler.NewImpl(ctx, r, func(*controller.Impl) controller.Options {
		return controller.Options{SkipStatusUpdates: true, FinalizerName: guestcluster.InstanceFinalizer}
	})
	r.prober = config.NewProber(ctx, impl.EnqueueKey)
	watch(ctx, impl, r)
	watchKinds(ctx, impl, r, config.LookForKinds)
	return impl
}

func watch(ctx context.Context, impl *controller.Impl, r *Reconciler) {
	must := func(_ cache.ResourceEventHandlerRegistration, err error) {
		if err != nil {
			logging.FromContext(ctx).Fatalw("Cannot watch", "error", err)
		}
	}
	must(instanceinformer.Get(ctx).Informer().AddEventHandler(controller.HandleAll(impl.Enqueue)))
	must(pipelineruninformer.Get(ctx).Informer().AddEventHandler(cache.FilteringResourceEventHandler{
		FilterFunc: controller.FilterControllerGK(v1alpha1.Kind("ClusterInstance")),
		Handler:    controller.HandleAll(impl.EnqueueControllerOf),
	}))
	must(leaseinformer.Get(ctx).Informer().AddEventHandler(controller.HandleAll(func(obj any) {
		if key, ok := leasedInstance(obj); ok {
			impl.EnqueueKey(key)
		}
	})))
	must(poolinformer.Get(ctx).Informer().AddEventHandler(poolGone(func(pool *v1alpha1.ClusterPool) { r.enqueuePool(impl, pool) })))
	must(namespaceinformer.Get(ctx).Informer().AddEventHandler(controller.HandleAll(func(obj any) {
		if ns, ok := obj.(*corev1.Namespace); ok {
			r.enqueueUnready(impl, ns.Name)
		}
	})))
	must(bundleinformer.Get(ctx).Informer().AddEventHandler(controller.HandleAll(func(obj any) { r.enqueueWaiting(impl, obj) })))
	must(nil, r.catalog.AddHandler(func() { r.enqueueUnready(impl, corev1.NamespaceAll) }))
}

// leasedInstance is the instance that a lease, perhaps a deleted one, names.
func leasedInstance(obj any) (types.NamespacedName, bool) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	lease, ok := obj.(*v1alpha1.ClusterLease)
	if !ok || lease.Status.InstanceRef == nil {
		return types.NamespacedName{}, false
	}
	ref := lease.Status.InstanceRef
	return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, true
}

// poolGone calls back with a pool that was deleted, or made anew meanwhile.
func poolGone(gone func(*v1alpha1.ClusterPool)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) {
			was, ok := before.(*v1alpha1.ClusterPool)
			if is, same := after.(*v1alpha1.ClusterPool); ok && same && was.UID != is.UID {
				gone(was)
			}
		},
		DeleteFunc: func(obj any) {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			if pool, ok := obj.(*v1alpha1.ClusterPool); ok {
				gone(pool)
			}
		},
	}
}

// enqueuePool looks at the instances that a pool which is gone left behind.
func (r *Reconciler) enqueuePool(impl *controller.Impl, pool *v1alpha1.ClusterPool) {
	list, err := r.instances.ClusterInstances(pool.Namespace).List(labels.Everything())
	if err != nil {
		return
	}
	for _, i := range list {
		if i.Spec.PoolRef != nil && i.Spec.PoolRef.UID == pool.UID {
			impl.Enqueue(i)
		}
	}
}

// enqueueUnready looks again at the instances that may wait for a namespace or
// for the catalog, and at those that are destroyed in it.
func (r *Reconciler) enqueueUnready(impl *controller.Impl, namespace string) {
	list, err := r.instances.ClusterInstances(namespace).List(labels.Everything())
	if err != nil {
		return
	}
	for _, i := range list {
		if i.DeletionTimestamp != nil || (i.Status.ReadyTime == nil && !i.IsFailed()) {
			impl.Enqueue(i)
		}
	}
}
