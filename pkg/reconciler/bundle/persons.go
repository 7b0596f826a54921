package bundle

import (
	"context"
	"fmt"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	tektonclient "github.com/tektoncd/pipeline/pkg/client/injection/client"
	pipelineruninformer "github.com/tektoncd/pipeline/pkg/client/injection/informers/pipeline/v1/pipelinerun"
	pipelinelisters "github.com/tektoncd/pipeline/pkg/client/listers/pipeline/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	kubeclient "knative.dev/pkg/client/injection/kube/client"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/reconciler"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	versioned "opdev.io/guestcluster/pkg/client/clientset/versioned"
	client "opdev.io/guestcluster/pkg/client/injection/client"
	bundleinformer "opdev.io/guestcluster/pkg/client/injection/informers/guestcluster/v1alpha1/crcbundle"
	listers "opdev.io/guestcluster/pkg/client/listers/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/runs"
)

// queueName is part of the election Lease's name: unique among our controllers.
const queueName = "guestcluster-bundle-runs"

// PersonsRuns makes the CRCBundle for prepare-bundle runs that a person
// started. The bundle's own reconciler then follows the run.
type PersonsRuns struct {
	reconciler.LeaderAwareFuncs
	reader
	client  versioned.Interface
	bundles listers.CRCBundleLister
	runs    pipelinelisters.PipelineRunNamespaceLister
}

var (
	_ controller.Reconciler  = (*PersonsRuns)(nil)
	_ reconciler.LeaderAware = (*PersonsRuns)(nil)
)

// NewPersonsRunsController wires it to the runs in guestcluster-bundles.
func NewPersonsRunsController(ctx context.Context, _ configmap.Watcher) *controller.Impl {
	logger := logging.FromContext(ctx)
	informer := pipelineruninformer.Get(ctx)
	r := &PersonsRuns{
		reader:  reader{kube: kubeclient.Get(ctx), tekton: tektonclient.Get(ctx)},
		client:  client.Get(ctx),
		bundles: bundleinformer.Get(ctx).Lister(),
		runs:    informer.Lister().PipelineRuns(guestcluster.BundleNamespace),
	}
	r.PromoteFunc = r.enqueueAll
	impl := controller.NewContext(ctx, r, controller.ControllerOptions{WorkQueueName: queueName, Logger: logger})
	if _, err := informer.Informer().AddEventHandler(cache.FilteringResourceEventHandler{
		FilterFunc: func(obj any) bool {
			run, ok := obj.(*pipelinev1.PipelineRun)
			return ok && ofAPerson(run)
		},
		Handler: controller.HandleAll(impl.Enqueue),
	}); err != nil {
		logger.Fatalw("watch runs", "error", err)
	}
	return impl
}

func ofAPerson(run *pipelinev1.PipelineRun) bool {
	return run.Namespace == guestcluster.BundleNamespace && runs.PreparesBundle(run) && !ownedByABundle(metav1.GetControllerOf(run))
}

// enqueueAll looks at every run on promotion.
func (r *PersonsRuns) enqueueAll(bucket reconciler.Bucket, enqueue func(reconciler.Bucket, types.NamespacedName)) error {
	all, err := r.runs.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, run := range all {
		if ofAPerson(run) {
			enqueue(bucket, types.NamespacedName{Namespace: run.Namespace, Name: run.Name})
		}
	}
	return nil
}

// Reconcile makes the bundle of one run, if it has none.
func (r *PersonsRuns) Reconcile(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return controller.NewPermanentError(err)
	}
	if !r.IsLeaderFor(types.NamespacedName{Namespace: namespace, Name: name}) {
		return controller.NewSkipKey(key)
	}
	run, err := r.tekton.TektonV1().PipelineRuns(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read PipelineRun %s: %w", name, err)
	}
	spec, ok := runs.BundleSpec(run)
	if !ok || !ofAPerson(run) {
		return nil
	}
	return r.makeBundle(ctx, run, spec)
}

func (r *PersonsRuns) makeBundle(ctx context.Context, run *pipelinev1.PipelineRun, spec v1alpha1.CRCBundleSpec) error {
	bundle := &v1alpha1.CRCBundle{
		ObjectMeta: metav1.ObjectMeta{
			Name:   v1alpha1.BundleName(spec.Version, spec.Arch),
			Labels: map[string]string{guestcluster.ManagedByLabel: guestcluster.ManagedBy},
		},
		Spec: spec,
	}
	if _, err := r.bundles.Get(bundle.Name); !apierrors.IsNotFound(err) {
		return err // it exists: whether it follows the run is its own decision
	}
	volume, _, err := r.volume(ctx, bundle)
	if err != nil {
		return err
	}
	if !preparingRun(run).WantsBundle(volume) {
		return nil
	}
	_, err = r.client.GuestclusterV1alpha1().CRCBundles().Create(ctx, bundle, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil
	case apierrors.IsInvalid(err):
		// The API server quotes what it refuses, such as a URL with a password.
		return controller.NewPermanentError(fmt.Errorf("PipelineRun %s prepares nothing that can be a CRCBundle: %s", run.Name, runs.Redact(err.Error())))
	case err != nil:
		return fmt.Errorf("create CRCBundle %s: %w", bundle.Name, err)
	}
	return nil
}
