package lease

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/reconciler"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	versioned "opdev.io/guestcluster/pkg/client/clientset/versioned"
	leasereconciler "opdev.io/guestcluster/pkg/client/injection/reconciler/guestcluster/v1alpha1/clusterlease"
	listers "opdev.io/guestcluster/pkg/client/listers/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
	"opdev.io/guestcluster/pkg/reconciler/claim"
	"opdev.io/guestcluster/pkg/reconciler/holder"
	"opdev.io/guestcluster/pkg/reconciler/metrics"
)

// Reconciler completes claims and gives instances back.
type Reconciler struct {
	Client    versioned.Interface
	Kube      kubernetes.Interface
	Instances listers.ClusterInstanceLister
	Pools     listers.ClusterPoolLister
	Holders   *holder.Checker
	Clock     clock.PassiveClock
	Metrics   *metrics.Recorder
	// EnqueueAfter looks at a lease again when time alone changes its plan.
	EnqueueAfter func(obj any, after time.Duration)

	finalized finalized
}

var (
	_ leasereconciler.Interface = (*Reconciler)(nil)
	_ leasereconciler.Finalizer = (*Reconciler)(nil)
)

// ReconcileKind takes the next step of a lease.
func (r *Reconciler) ReconcileKind(ctx context.Context, cached *v1alpha1.ClusterLease) reconciler.Event {
	lease := cached.DeepCopy()
	seen, err := r.observe(ctx, lease)
	if err != nil {
		return err
	}
	next := plan.Lease(seen.LeaseFacts, r.Clock.Now())
	if next.Step == plan.LeaseKeep && (next.LookAgain <= 0 || next.LookAgain > restoreEvery) {
		next.LookAgain = restoreEvery
	}
	if next.LookAgain > 0 {
		r.EnqueueAfter(lease, next.LookAgain)
	}
	if seen.holderErr != nil && next.Step != plan.LeaseEnd {
		return seen.holderErr
	}
	return settle(r.act(ctx, lease, seen, next))
}

// FinalizeKind gives back what a deleted lease holds. The finalizer goes when
// the access Secret is gone and the instance is being destroyed.
func (r *Reconciler) FinalizeKind(ctx context.Context, lease *v1alpha1.ClusterLease) reconciler.Event {
	_, err := r.giveBack(ctx, lease)
	if err == nil && !lease.Ended() {
		r.finalized.add(lease.UID)
	}
	return settle(err)
}

// settle drops conflicts: whoever wrote before us has caused an event that
// wakes the lease with what it needs to know. Finalizers need a retry, which
// the deletion's own event gives.
func settle(err error) error {
	if err != nil && apierrors.IsConflict(err) {
		return controller.NewRequeueAfter(conflictPause)
	}
	return err
}

// conflictPause only covers the time until the event of the other write.
const conflictPause = 200 * time.Millisecond

type observed struct {
	plan.LeaseFacts
	instance *v1alpha1.ClusterInstance
	// holderErr: the holder is not known. It counts as running, so that release,
	// ttl and timeouts do not depend on Tekton's API.
	holderErr error
}

func (r *Reconciler) observe(ctx context.Context, lease *v1alpha1.ClusterLease) (observed, error) {
	seen := observed{LeaseFacts: plan.LeaseFacts{Lease: lease}}
	if lease.Ended() {
		return seen, nil
	}
	var err error
	if seen.Holder, seen.holderErr = r.Holders.Cached(ctx, lease); seen.holderErr != nil {
		seen.Holder = plan.HolderRunning
	}
	if pool, err := r.Pools.ClusterPools(lease.PoolNamespace()).Get(lease.Spec.PoolRef.Name); err == nil {
		seen.Policy = pool.Spec.Lease
	}
	seen.Hold, seen.instance, err = r.hold(ctx, lease)
	return seen, err
}

// hold reads the instance that the lease names: from the cache while all is
// well, by a live GET for everything that leads to a write.
func (r *Reconciler) hold(ctx context.Context, lease *v1alpha1.ClusterLease) (plan.Hold, *v1alpha1.ClusterInstance, error) {
	ref := lease.Status.InstanceRef
	if ref == nil {
		return plan.HoldNone, nil, nil
	}
	if lease.Status.Phase == v1alpha1.LeaseBound {
		cached, err := r.Instances.ClusterInstances(ref.Namespace).Get(ref.Name)
		if err == nil && holdOf(lease, cached) == plan.HoldOurs {
			return plan.HoldOurs, cached, nil
		}
	}
	live, err := r.Client.GuestclusterV1alpha1().ClusterInstances(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return plan.HoldGone, nil, nil
	}
	if err != nil {
		return plan.HoldNone, nil, fmt.Errorf("get instance %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	return holdOf(lease, live), live, nil
}

func holdOf(lease *v1alpha1.ClusterLease, i *v1alpha1.ClusterInstance) plan.Hold {
	switch {
	case i.UID != lease.Status.InstanceRef.UID:
		return plan.HoldGone
	case i.ClaimedBy(lease) && (i.DeletionTimestamp != nil || i.IsFailed()):
		return plan.HoldLost
	case i.ClaimedBy(lease):
		return plan.HoldOurs
	case i.Spec.ClaimRef != nil:
		return plan.HoldOther
	case i.DeletionTimestamp != nil:
		return plan.HoldDeleting
	case i.IsReady():
		return plan.HoldOpen
	default:
		return plan.HoldUnready
	}
}

func (r *Reconciler) act(ctx context.Context, lease *v1alpha1.ClusterLease, seen observed, next plan.LeasePlan) error {
	before := lease.DeepCopy()
	switch next.Step {
	case plan.LeaseClaim:
		return r.claim(ctx, lease, seen.instance)
	case plan.LeaseForget:
		lease.MarkUnclaimed(fmt.Sprintf("instance %s went to another lease or is being destroyed; waiting for the next one", lease.Status.InstanceRef.Name))
		return claim.WriteStatus(ctx, r.Client, before, lease)
	case plan.LeaseGiveUp:
		i := seen.instance
		return claim.DeleteOpen(ctx, r.Client, i.Namespace, i.Name, i.UID, i.ResourceVersion)
	case plan.LeaseHandOver:
		return r.handOver(ctx, lease, seen.instance, next.TTL)
	case plan.LeaseKeep:
		return r.restore(ctx, lease, seen.instance)
	case plan.LeaseRetime:
		lease.MarkTTL(next.TTL)
		return claim.WriteStatus(ctx, r.Client, before, lease)
	case plan.LeaseEnd:
		return r.end(ctx, lease, next)
	case plan.LeaseRemove:
		return r.remove(ctx, lease)
	case plan.LeaseWait:
	}
	return nil
}

// claim completes what the binding announced, after a live look at the holder.
func (r *Reconciler) claim(ctx context.Context, lease *v1alpha1.ClusterLease, instance *v1alpha1.ClusterInstance) error {
	state, err := r.Holders.Live(ctx, lease)
	if err != nil {
		return err
	}
	if state == plan.HolderDone || state == plan.HolderGone {
		r.EnqueueAfter(lease, conflictPause)
		return nil
	}
	return claim.Write(ctx, r.Client, lease, instance)
}

func (r *Reconciler) end(ctx context.Context, lease *v1alpha1.ClusterLease, next plan.LeasePlan) error {
	before := lease.DeepCopy()
	if lease.Status.InstanceRef != nil && lease.Status.Phase != v1alpha1.LeaseReleasing {
		lease.MarkReleasing(next.Reason, next.Message)
		if err := claim.WriteStatus(ctx, r.Client, before, lease); err != nil {
			return err
		}
		before = lease.DeepCopy()
	}
	left, err := r.giveBack(ctx, lease)
	if err != nil {
		return err
	}
	lease.MarkEnded(next.Reason, next.Message+left, metav1.NewTime(r.Clock.Now()))
	if err := claim.WriteStatus(ctx, r.Client, before, lease); err != nil {
		return err
	}
	r.countReleased(ctx, lease, string(next.Reason))
	kind := corev1.EventTypeNormal
	if lease.Status.Phase == v1alpha1.LeaseFailed {
		kind = corev1.EventTypeWarning
	}
	controller.GetEventRecorder(ctx).Event(lease, kind, string(next.Reason), next.Message)
	return nil
}

func (r *Reconciler) remove(ctx context.Context, lease *v1alpha1.ClusterLease) error {
	err := r.Client.GuestclusterV1alpha1().ClusterLeases(lease.Namespace).Delete(ctx, lease.Name,
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &lease.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete ended lease: %w", err)
	}
	return nil
}
