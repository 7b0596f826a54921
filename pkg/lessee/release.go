package lessee

import (
	"fmt"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// CanRelease refuses a holder that has no lease of its own to release.
func (h *Holder) CanRelease() *Problem {
	if p := h.Validate(); p != nil {
		return p
	}
	if h.Bare() {
		return Invalid("this run belongs to no PipelineRun, so no lease is its own; delete the lease instead: kubectl delete clusterlease -n %s <lease>", h.Namespace)
	}
	return nil
}

// Return is what a release has to do.
type Return struct {
	// Release says that spec.release is to be set.
	Release bool
	// Text is what was done, for people; it holds once spec.release is set.
	Text string
	// Problem refuses the release.
	Problem *Problem
}

// Release decides what to do with the holder's lease; nil when there is none.
// Nothing to release is success.
func (h *Holder) Release(lease *v1alpha1.ClusterLease) Return {
	switch {
	case lease == nil:
		return Return{Text: fmt.Sprintf("nothing to release: there is no lease %s/%s", h.Namespace, h.LeaseName())}
	case !h.Holds(lease):
		return Return{Problem: conflict("lease %s/%s belongs to another holder: not released", lease.Namespace, lease.Name)}
	case lease.DeletionTimestamp != nil || lease.Spec.Release || lease.Ending():
		return Return{Text: fmt.Sprintf("nothing to release: lease %s/%s was released before", lease.Namespace, lease.Name)}
	}
	return Return{Release: true, Text: fmt.Sprintf("released lease %s/%s", lease.Namespace, lease.Name)}
}
