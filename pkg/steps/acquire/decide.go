package acquire

import (
	"fmt"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/steps/step"
)

// decision is what to do about a lease as it stands. The zero decision waits on.
type decision struct {
	// bound ends the wait well.
	bound bool
	// err ends the wait.
	err error
	// remove says that the lease waits for what nobody will mend during this
	// run, and should not stay behind.
	remove bool
}

// decide reads a lease's status:
//
//	phase      reason                           decision
//	Bound      any                              done
//	Pending    PoolNotFound, NamespaceNot...    fail, remove the lease
//	Pending    any other                        wait: a cluster, an admin or the pool may come
//	Releasing, any                              fail: already released
//	Released
//	Failed     AcquireTimeout                   fail as timeout
//	Failed     any other                        fail
//
// waited is what the lease last waited for; it is repeated on a timeout,
// because only it says what to do.
func decide(lease *v1alpha1.ClusterLease, waited string) decision {
	reason := lease.Status.BoundReason()
	why := fmt.Sprintf("lease %s/%s: %s: %s", lease.Namespace, lease.Name, reason, lease.Status.BoundMessage())
	switch lease.Status.Phase {
	case v1alpha1.LeaseBound:
		return decision{bound: true}
	case v1alpha1.LeaseReleasing, v1alpha1.LeaseReleased:
		return decision{err: step.UserError("already released: %s", why)}
	case v1alpha1.LeaseFailed:
		return decision{err: failed(reason, why, waited)}
	}
	switch {
	case lease.Spec.Release:
		return decision{err: step.UserError("already released: lease %s/%s was told to give its cluster back", lease.Namespace, lease.Name)}
	case reason == v1alpha1.ReasonPoolNotFound, reason == v1alpha1.ReasonNamespaceNotAllowed:
		return decision{err: step.UserError("%s", why), remove: true}
	}
	return decision{}
}

func failed(reason v1alpha1.Reason, why, waited string) error {
	if reason != v1alpha1.ReasonAcquireTimeout {
		return step.InfraError("%s", why)
	}
	if waited == "" {
		return step.TimeoutError("%s", why)
	}
	return step.TimeoutError("%s; it waited for: %s", why, waited)
}

// waiting is the progress line of a lease that waits. Only what a person would
// act on is in it, so that an unchanged line means nothing new.
func waiting(lease *v1alpha1.ClusterLease) string {
	reason := lease.Status.BoundReason()
	if reason == "" {
		return ""
	}
	line := string(reason)
	if lease.Status.QueuePosition > 0 {
		line += fmt.Sprintf(" (position %d)", lease.Status.QueuePosition)
	}
	return line
}

// neverBound says that a lease failed without ever having had a cluster.
func neverBound(lease *v1alpha1.ClusterLease) bool {
	return lease.Status.Phase == v1alpha1.LeaseFailed && lease.Status.BoundTime == nil
}

// pending says that a lease still waits.
func pending(lease *v1alpha1.ClusterLease) bool {
	return lease.Status.Phase == "" || lease.Status.Phase == v1alpha1.LeasePending
}
