package customrun

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tektoncd/pipeline/pkg/apis/pipeline/v1beta1"
	tekton "github.com/tektoncd/pipeline/pkg/client/clientset/versioned"
	runlisters "github.com/tektoncd/pipeline/pkg/client/listers/pipeline/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"knative.dev/pkg/apis"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/reconciler"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	versioned "opdev.io/guestcluster/pkg/client/clientset/versioned"
	listers "opdev.io/guestcluster/pkg/client/listers/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
	"opdev.io/guestcluster/pkg/runs"
)

const (
	// maxSteps is more than a CustomRun takes from its start to its end.
	maxSteps = 12
	// conflictPause only covers the time until the event of the other write.
	conflictPause = 200 * time.Millisecond
)

// Reconciler takes CustomRuns of ours to their end.
type Reconciler struct {
	reconciler.LeaderAwareFuncs
	client       versioned.Interface
	tekton       tekton.Interface
	runs         runlisters.CustomRunLister
	leases       listers.ClusterLeaseLister
	clock        clock.PassiveClock
	events       record.EventRecorder
	enqueueAfter func(types.NamespacedName, time.Duration)
}

var (
	_ controller.Reconciler  = (*Reconciler)(nil)
	_ reconciler.LeaderAware = (*Reconciler)(nil)
)

// Reconcile decides from the caches whether there is anything to do, and does
// it from live reads: a stale CustomRun must not make a lease that nobody waits
// for any more.
func (r *Reconciler) Reconcile(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return controller.NewPermanentError(err)
	}
	at := types.NamespacedName{Namespace: namespace, Name: name}
	if !r.IsLeaderFor(at) {
		return controller.NewSkipKey(key)
	}
	cached, err := r.runs.CustomRuns(namespace).Get(name)
	if apierrors.IsNotFound(err) || (err == nil && !runs.OurCustomRun(cached)) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get CustomRun %s: %w", at, err)
	}
	request := runs.CustomRunRequest(cached)
	lease, err := found(r.leases.ClusterLeases(namespace).Get(request.Order.Holder.LeaseName()))
	if err != nil {
		return err
	}
	next := plan.CustomRun(facts(cached, request, lease), r.clock.Now())
	if next.Step == plan.CustomRunKeep {
		r.lookAgain(at, next)
		return nil
	}
	err = r.work(ctx, at)
	if err != nil && apierrors.IsConflict(err) {
		return controller.NewRequeueAfter(conflictPause)
	}
	return err
}

// work takes live steps until there is nothing to do.
func (r *Reconciler) work(ctx context.Context, at types.NamespacedName) error {
	run, err := r.tekton.TektonV1beta1().CustomRuns(at.Namespace).Get(ctx, at.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get CustomRun %s: %w", at, err)
	}
	if !runs.OurCustomRun(run) {
		return nil
	}
	request := runs.CustomRunRequest(run)
	for range maxSteps {
		lease, err := found(r.client.GuestclusterV1alpha1().ClusterLeases(at.Namespace).Get(ctx, request.Order.Holder.LeaseName(), metav1.GetOptions{}))
		if err != nil {
			return err
		}
		seen := facts(run, request, lease)
		next := plan.CustomRun(seen, r.clock.Now())
		if next.Step == plan.CustomRunKeep {
			r.lookAgain(at, next)
			return nil
		}
		if run, err = r.act(ctx, run, seen, next); err != nil {
			return err
		}
	}
	return controller.NewRequeueAfter(conflictPause)
}

func (r *Reconciler) lookAgain(at types.NamespacedName, next plan.CustomRunPlan) {
	if next.LookAgain > 0 {
		r.enqueueAfter(at, next.LookAgain)
	}
}

// found makes an absent lease nil.
func found(lease *v1alpha1.ClusterLease, err error) (*v1alpha1.ClusterLease, error) {
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get lease: %w", err)
	}
	return lease, nil
}

// facts of a CustomRun as it was read.
func facts(run *v1beta1.CustomRun, request runs.Request, lease *v1alpha1.ClusterLease) plan.CustomRunFacts {
	f := plan.CustomRunFacts{
		UID: run.UID, Order: request.Order, Release: request.Release, Wrong: request.Wrong,
		Cancelled: run.IsCancelled(), CancelMessage: string(run.Spec.StatusMessage),
		Deleted: run.DeletionTimestamp != nil, Protected: slices.Contains(run.Finalizers, guestcluster.CustomRunFinalizer),
		Timeout: run.GetTimeout(), RetriesLeft: max(0, run.Spec.Retries-run.GetRetryCount()),
		Done: run.IsDone(), Succeeded: run.IsSuccessful(), Lease: lease,
	}
	if run.Status.StartTime != nil {
		f.Started = run.Status.StartTime.Time
	}
	if c := run.Status.GetCondition(apis.ConditionSucceeded); c != nil && c.IsUnknown() {
		f.Waits = plan.Waiting{Reason: v1alpha1.Reason(c.Reason), Message: c.Message}
	}
	var noted note
	// What is no note of ours is none: the lease is then followed anew.
	if err := run.Status.DecodeExtraFields(&noted); err == nil {
		f.Followed, f.Renewed = noted.LeaseUID, noted.Renewed
	}
	return f
}
