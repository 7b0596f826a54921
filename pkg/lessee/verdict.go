package lessee

import (
	"fmt"
	"time"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// Verdict is what a lease's state means for the run that waits for it. The
// zero Verdict waits on.
type Verdict struct {
	// Bound ends the wait well.
	Bound bool
	// Problem ends the wait.
	Problem *Problem
	// Remove says that the lease waits for what nobody will mend during this
	// run, and should not stay behind.
	Remove bool
}

// Judge reads a lease's status:
//
//	phase      reason                           verdict
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
func Judge(lease *v1alpha1.ClusterLease, waited string) Verdict {
	reason := lease.Status.BoundReason()
	why := fmt.Sprintf("lease %s/%s: %s: %s", lease.Namespace, lease.Name, reason, lease.Status.BoundMessage())
	switch lease.Status.Phase {
	case v1alpha1.LeaseBound:
		return Verdict{Bound: true}
	case v1alpha1.LeaseReleasing, v1alpha1.LeaseReleased:
		return Verdict{Problem: &Problem{User, reason, "already released: " + why}}
	case v1alpha1.LeaseFailed:
		return Verdict{Problem: failed(reason, why, waited)}
	}
	switch {
	case lease.Spec.Release:
		return Verdict{Problem: &Problem{User, v1alpha1.ReasonReleased,
			fmt.Sprintf("already released: lease %s/%s was told to give its cluster back", lease.Namespace, lease.Name)}}
	case reason == v1alpha1.ReasonPoolNotFound, reason == v1alpha1.ReasonNamespaceNotAllowed:
		return Verdict{Problem: &Problem{User, reason, why}, Remove: true}
	}
	return Verdict{}
}

func failed(reason v1alpha1.Reason, why, waited string) *Problem {
	if reason != v1alpha1.ReasonAcquireTimeout {
		return &Problem{Infra, reason, why}
	}
	if waited != "" {
		why += "; it waited for: " + waited
	}
	return &Problem{Timeout, reason, why}
}

// Deleted is the problem of a lease that went away while it was waited for.
func (h *Holder) Deleted() *Problem {
	return &Problem{User, v1alpha1.ReasonLeaseDeleted, fmt.Sprintf("lease %s/%s was deleted by somebody while it waited", h.Namespace, h.LeaseName())}
}

// NeverBound says that a lease failed without ever having had a cluster.
func NeverBound(lease *v1alpha1.ClusterLease) bool {
	return lease.Status.Phase == v1alpha1.LeaseFailed && lease.Status.BoundTime == nil
}

// Pending says that a lease still waits.
func Pending(lease *v1alpha1.ClusterLease) bool {
	return lease.Status.Phase == "" || lease.Status.Phase == v1alpha1.LeasePending
}

// Results of an acquire.
const (
	ResultLease            = "lease"
	ResultKubeconfigSecret = "kubeconfig-secret"
	ResultAPIEndpoint      = "api-endpoint"
	ResultOCPVersion       = "ocp-version"
	ResultTopology         = "topology"
	ResultExpiresAt        = "expires-at"
)

// Result is a name or fact of a bound lease; the kubeconfig stays in its Secret.
type Result struct {
	Name, Value string
}

// Results of a bound lease.
func Results(lease *v1alpha1.ClusterLease) []Result {
	s, expires, secret := lease.Status, "", ""
	if s.ExpiresAt != nil {
		expires = s.ExpiresAt.UTC().Format(time.RFC3339)
	}
	if s.KubeconfigSecretRef != nil {
		secret = s.KubeconfigSecretRef.Name
	}
	return []Result{
		{ResultLease, lease.Name},
		{ResultKubeconfigSecret, secret},
		{ResultAPIEndpoint, s.APIEndpoint},
		{ResultOCPVersion, s.OCPVersion},
		{ResultTopology, s.Topology},
		{ResultExpiresAt, expires},
	}
}
