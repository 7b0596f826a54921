package bundle

import (
	"context"
	"fmt"
	"time"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	pipelinelisters "github.com/tektoncd/pipeline/pkg/client/listers/pipeline/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/reconciler"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	versioned "opdev.io/guestcluster/pkg/client/clientset/versioned"
	bundlereconciler "opdev.io/guestcluster/pkg/client/injection/reconciler/guestcluster/v1alpha1/crcbundle"
	listers "opdev.io/guestcluster/pkg/client/listers/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
	"opdev.io/guestcluster/pkg/reconciler/catalog"
	"opdev.io/guestcluster/pkg/reconciler/metrics"
	"opdev.io/guestcluster/pkg/runs"
)

// lostCheck is how often a Ready bundle is looked at: volumes and Secrets are
// not watched.
const lostCheck = 10 * time.Minute

// Reconciler drives one bundle. Effects follow status: what a pass decides is
// written first and acted upon when it is read back.
type Reconciler struct {
	reader
	client  versioned.Interface
	dynamic dynamic.Interface
	bundles listers.CRCBundleLister
	// runs are those of guestcluster-bundles, trimmed.
	runs    pipelinelisters.PipelineRunNamespaceLister
	catalog *catalog.Catalog
	clock   clock.PassiveClock
	metrics *metrics.Recorder
}

var (
	_ bundlereconciler.Interface = (*Reconciler)(nil)
	_ bundlereconciler.Finalizer = (*Reconciler)(nil)
)

// ReconcileKind implements the generated Interface.
func (r *Reconciler) ReconcileKind(ctx context.Context, b *v1alpha1.CRCBundle) reconciler.Event {
	original := b.DeepCopy()
	after, err := r.advance(ctx, b)
	if err != nil {
		after, err = explain(b, err)
	}
	if writeErr := r.writeStatus(ctx, original, b); writeErr != nil {
		if apierrors.IsConflict(writeErr) {
			return nil // the bundle changed: its event brings us back
		}
		return writeErr
	}
	if err == nil && after > 0 {
		return controller.NewRequeueAfter(after)
	}
	return err
}

// advance does the next thing; the duration says when to look again at the
// latest, zero that an event will tell.
func (r *Reconciler) advance(ctx context.Context, b *v1alpha1.CRCBundle) (time.Duration, error) {
	switch {
	case b.IsFailed():
		return r.dropRuns(ctx, b)
	case b.Status.Phase == v1alpha1.BundleReady:
		return r.guard(ctx, b)
	case b.Status.Run == nil:
		return 0, r.begin(b)
	case b.Status.Run.UID == "":
		return 0, r.start(ctx, b)
	default:
		return r.follow(ctx, b)
	}
}

// begin freezes the spec: a run is only made from what can no longer change.
func (r *Reconciler) begin(b *v1alpha1.CRCBundle) error {
	pipeline, tasks, err := r.catalog.PrepareBundle()
	if err == nil {
		err = runs.ValidateBundle(pipeline, tasks)
	}
	if err != nil {
		return err
	}
	b.MarkRun(v1alpha1.RunStatus{Name: b.RunName(0)})
	b.MarkWaiting(v1alpha1.ReasonBundlePreparing, "starting PipelineRun "+b.RunName(0))
	return nil
}

// start follows the run that a person started, or else makes that of the
// current attempt.
func (r *Reconciler) start(ctx context.Context, b *v1alpha1.CRCBundle) error {
	if err := r.checkFresh(ctx, b); err != nil {
		return err
	}
	run, err := r.personsRun(ctx, b)
	if err != nil {
		return err
	}
	if run != nil {
		begun := metav1.NewTime(run.Created)
		b.MarkRun(v1alpha1.RunStatus{Name: run.Name, UID: run.UID, Attempt: b.Status.Run.Attempt, StartedAt: &begun})
		b.MarkWaiting(v1alpha1.ReasonBundlePreparing, fmt.Sprintf("PipelineRun %s, which a person started, is running", run.Name))
		return nil
	}
	return r.makeRun(ctx, b)
}

func (r *Reconciler) makeRun(ctx context.Context, b *v1alpha1.CRCBundle) error {
	pipeline, tasks, err := r.catalog.PrepareBundle()
	if err != nil {
		return err
	}
	last := b.Status.Run
	in := runs.BundleInput{Bundle: b, Pipeline: pipeline, Tasks: tasks, Attempt: last.Attempt, Timeout: runs.BundleTimeout}
	if last.StartedAt != nil {
		in.Timeout = plan.TimeLeft(last.StartedAt.Time, r.clock.Now(), in.Timeout)
	}
	want, err := runs.BuildBundle(in)
	if err != nil {
		return err
	}
	run, err := r.ensureRun(ctx, b, want)
	if err != nil {
		return err
	}
	startedAt := last.StartedAt
	if startedAt == nil {
		startedAt = &run.CreationTimestamp
	}
	b.MarkRun(v1alpha1.RunStatus{Name: run.Name, UID: run.UID, Attempt: last.Attempt, StartedAt: startedAt})
	b.MarkWaiting(v1alpha1.ReasonRunQueued, fmt.Sprintf("PipelineRun %s waits for Tekton", run.Name))
	return nil
}

// ensureRun makes the run, or takes the one that an earlier pass made.
func (r *Reconciler) ensureRun(ctx context.Context, b *v1alpha1.CRCBundle, want *pipelinev1.PipelineRun) (*pipelinev1.PipelineRun, error) {
	client := r.tekton.TektonV1().PipelineRuns(want.Namespace)
	run, err := client.Create(ctx, want, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		run, err = client.Get(ctx, want.Name, metav1.GetOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("make PipelineRun %s: %w", want.Name, err)
	}
	if !metav1.IsControlledBy(run, b) {
		return nil, &waitError{reason: v1alpha1.ReasonForeignObject, after: lookAgain, message: fmt.Sprintf(
			"PipelineRun %s/%s exists and does not belong to this bundle: delete it", want.Namespace, want.Name)}
	}
	return run, nil
}

// checkFresh refuses to act for a bundle that changed since it was read: a
// leader with an old cache could otherwise start a run for one that is deleted.
func (r *Reconciler) checkFresh(ctx context.Context, b *v1alpha1.CRCBundle) error {
	live, err := r.client.GuestclusterV1alpha1().CRCBundles().Get(ctx, b.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read bundle: %w", err)
	}
	if err != nil || live.UID != b.UID || live.ResourceVersion != b.ResourceVersion {
		return controller.NewSkipKey(b.Name) // its event brings us back
	}
	return nil
}

// guard looks after a Ready bundle.
func (r *Reconciler) guard(ctx context.Context, b *v1alpha1.CRCBundle) (time.Duration, error) {
	volume, _, err := r.volume(ctx, b)
	if err != nil {
		return 0, err
	}
	key, _, err := r.key(ctx, b)
	if err != nil {
		return 0, err
	}
	if lost := plan.BundleLost(b, volume, key); lost != "" {
		b.MarkLost(lost, metav1.NewTime(r.clock.Now()))
		return 0, nil
	}
	after, err := r.dropRuns(ctx, b)
	if after <= 0 || after > lostCheck {
		after = lostCheck
	}
	return after, err
}

// dropRuns deletes the bundle's own ended runs when their time is over; until
// then it says how much is left. A person's run is the person's to delete.
func (r *Reconciler) dropRuns(ctx context.Context, b *v1alpha1.CRCBundle) (time.Duration, error) {
	keep, left := plan.KeepBundleRun(b, r.clock.Now())
	if keep {
		return left, nil
	}
	own, err := r.runs.List(ofBundle(b))
	if err != nil {
		return 0, fmt.Errorf("list PipelineRuns: %w", err)
	}
	for _, run := range own {
		if !metav1.IsControlledBy(run, b) || run.DeletionTimestamp != nil {
			continue
		}
		err := r.tekton.TektonV1().PipelineRuns(guestcluster.BundleNamespace).Delete(ctx, run.Name, onlyThis(run.UID))
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return 0, fmt.Errorf("delete PipelineRun %s: %w", run.Name, err)
		}
	}
	return 0, nil
}
