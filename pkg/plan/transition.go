package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// RunOutcome is how a run ended, for counting.
type RunOutcome string

// The outcomes of a run; empty when it did not end.
const (
	OutcomeSucceeded RunOutcome = "succeeded"
	OutcomeFailed    RunOutcome = "failed"
	OutcomeTimedOut  RunOutcome = "timed_out"
	// OutcomeLost runs vanished or were cancelled by others.
	OutcomeLost RunOutcome = "lost"
	// OutcomeRejected runs ended well, but what they handed over was refused.
	OutcomeRejected RunOutcome = "rejected"
)

// RunRecord is what a status says about a run.
type RunRecord struct {
	Run *v1alpha1.RunStatus
	// Accepted: what the run made was taken over.
	Accepted bool
	Failure  *v1alpha1.FailureStatus
}

// InstanceRecord is the record of a provisioning run.
func InstanceRecord(s v1alpha1.ClusterInstanceStatus) RunRecord {
	return RunRecord{Run: s.Run, Failure: s.Failure, Accepted: meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionProvisioned)}
}

// BundleRecord is the record of a prepare-bundle run.
func BundleRecord(s v1alpha1.CRCBundleStatus) RunRecord {
	return RunRecord{Run: s.Run, Failure: s.Failure, Accepted: s.Phase == v1alpha1.BundleReady}
}

// RunEnded says how the run of before ended, if one write of status ended it.
func RunEnded(before, after RunRecord) RunOutcome {
	switch {
	case before.Run == nil || before.Run.UID == "" || before.Accepted || before.Failure != nil:
		return ""
	case after.Accepted:
		return OutcomeSucceeded
	case after.Failure != nil && after.Failure.Run == before.Run.Name:
		return failedOutcome(v1alpha1.Reason(after.Failure.Reason))
	case after.Failure == nil && after.Run != nil && after.Run.Attempt > before.Run.Attempt:
		return OutcomeLost
	}
	return ""
}

func failedOutcome(reason v1alpha1.Reason) RunOutcome {
	switch reason {
	case v1alpha1.ReasonProvisioningTimeout:
		return OutcomeTimedOut
	case v1alpha1.ReasonRunLost:
		return OutcomeLost
	case v1alpha1.ReasonHandoffInvalid:
		return OutcomeRejected
	}
	return OutcomeFailed
}

// Warm says whether an instance was Ready before the lease asked for it.
func Warm(lease *v1alpha1.ClusterLease, i *v1alpha1.ClusterInstance) bool {
	return i.Status.ReadyTime != nil && !i.Status.ReadyTime.After(lease.CreationTimestamp.Time)
}

// BreakerState is where a pool's breaker stands.
type BreakerState string

// The states of a breaker.
const (
	BreakerClosed   BreakerState = "closed"
	BreakerOpen     BreakerState = "open"
	BreakerHalfOpen BreakerState = "half_open"
)

// Breaker reads a pool's breaker: half open when the pause is over and one
// instance may be tried.
func Breaker(pool *v1alpha1.ClusterPool, now time.Time) BreakerState {
	if conditionReason(pool, v1alpha1.ConditionProvisioningHealthy) != v1alpha1.ReasonBreakerOpen {
		return BreakerClosed
	}
	if next := pool.Status.NextAttemptTime; next == nil || now.Before(next.Time) {
		return BreakerOpen
	}
	return BreakerHalfOpen
}
