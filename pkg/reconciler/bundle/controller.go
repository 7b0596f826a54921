package bundle

import (
	"context"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	tektonclient "github.com/tektoncd/pipeline/pkg/client/injection/client"
	pipelineruninformer "github.com/tektoncd/pipeline/pkg/client/injection/informers/pipeline/v1/pipelinerun"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	kubeclient "knative.dev/pkg/client/injection/kube/client"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/injection/clients/dynamicclient"
	"knative.dev/pkg/logging"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	client "opdev.io/guestcluster/pkg/client/injection/client"
	bundleinformer "opdev.io/guestcluster/pkg/client/injection/informers/guestcluster/v1alpha1/crcbundle"
	bundlereconciler "opdev.io/guestcluster/pkg/client/injection/reconciler/guestcluster/v1alpha1/crcbundle"
	"opdev.io/guestcluster/pkg/reconciler/catalog"
	"opdev.io/guestcluster/pkg/reconciler/clocks"
	"opdev.io/guestcluster/pkg/reconciler/index"
	"opdev.io/guestcluster/pkg/reconciler/metrics"
	"opdev.io/guestcluster/pkg/runs"
)

// NewController wires the bundle reconciler to bundles, prepare-bundle runs and
// the catalog.
func NewController(ctx context.Context, _ configmap.Watcher) *controller.Impl {
	logger := logging.FromContext(ctx)
	bundles, runInformer := bundleinformer.Get(ctx), pipelineruninformer.Get(ctx)
	r := &Reconciler{
		reader:  reader{kube: kubeclient.Get(ctx), tekton: tektonclient.Get(ctx)},
		client:  client.Get(ctx),
		dynamic: dynamicclient.Get(ctx),
		bundles: bundles.Lister(),
		runs:    runInformer.Lister().PipelineRuns(guestcluster.BundleNamespace),
		catalog: catalog.FromContext(ctx),
		clock:   clocks.From(ctx),
		metrics: metrics.New(ctx),
	}
	impl := bundlereconciler.NewImpl(ctx, r, func(*controller.Impl) controller.Options {
		return controller.Options{SkipStatusUpdates: true, FinalizerName: guestcluster.BundleFinalizer}
	})
	if err := r.catalog.AddHandler(func() { r.enqueueUnstarted(impl.EnqueueKey) }); err != nil {
		logger.Fatalw("watch the catalog", "error", err)
	}
	if _, err := bundles.Informer().AddEventHandler(controller.HandleAll(impl.Enqueue)); err != nil {
		logger.Fatalw("watch bundles", "error", err)
	}
	if _, err := runInformer.Informer().AddEventHandler(controller.HandleAll(func(obj any) {
		if run, ok := index.FinalState(obj).(*pipelinev1.PipelineRun); ok {
			r.enqueueBundlesOf(run, impl.EnqueueKey)
		}
	})); err != nil {
		logger.Fatalw("watch runs", "error", err)
	}
	return impl
}

// enqueueUnstarted wakes the bundles that may wait for the Pipeline.
func (r *Reconciler) enqueueUnstarted(enqueue func(types.NamespacedName)) {
	all, err := r.bundles.List(labels.Everything())
	if err != nil {
		return
	}
	for _, b := range all {
		if b.Status.Run == nil || b.Status.Run.UID == "" {
			enqueue(types.NamespacedName{Name: b.Name})
		}
	}
}

// enqueueBundlesOf wakes the bundle that owns or follows a run, and those that
// might follow it if a person started it.
func (r *Reconciler) enqueueBundlesOf(run *pipelinev1.PipelineRun, enqueue func(types.NamespacedName)) {
	if run.Namespace != guestcluster.BundleNamespace {
		return
	}
	if owner := metav1.GetControllerOf(run); ownedByABundle(owner) {
		enqueue(types.NamespacedName{Name: owner.Name})
		return
	}
	all, err := r.bundles.List(labels.Everything())
	if err != nil {
		return
	}
	for _, b := range all {
		ref := b.Status.Run
		unstarted := ref == nil || ref.UID == ""
		if (ref != nil && ref.UID == run.UID) || (unstarted && runs.PreparesBundle(run)) {
			enqueue(types.NamespacedName{Name: b.Name})
		}
	}
}

func ownedByABundle(owner *metav1.OwnerReference) bool {
	return owner != nil && owner.Kind == "CRCBundle"
}
