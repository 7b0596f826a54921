package lessee

import (
	"regexp"

	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// Holder is the run that takes a lease and the PipelineRun that holds it.
type Holder struct {
	// Namespace of the runs and the lease.
	Namespace string
	// PipelineRun and its UID; empty in a TaskRun or CustomRun of its own.
	PipelineRun, PipelineRunUID string
	// RunUID is the UID of the TaskRun or CustomRun.
	RunUID string
	// Slot tells several leases of one PipelineRun apart.
	Slot string
}

// slotPattern keeps run-<UID>-<slot> a DNS label.
var slotPattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,18}[a-z0-9])?$`)

// Validate says what is missing or malformed.
func (h *Holder) Validate() *Problem {
	switch {
	case h.Namespace == "":
		return Invalid("--namespace is empty: the Task must take it from the pod")
	case h.Slot != "" && !slotPattern.MatchString(h.Slot):
		return Invalid("slot %q: use at most 20 lower case letters, digits and dashes", h.Slot)
	case (h.PipelineRun == "") != (h.PipelineRunUID == ""):
		return Invalid("--pipeline-run and --pipeline-run-uid go together")
	case h.PipelineRunUID == "" && h.RunUID == "":
		return Invalid("the pod belongs to no PipelineRun or TaskRun: its labels do not tell who would hold the lease")
	}
	return nil
}

// Bare says whether the run belongs to no PipelineRun.
func (h *Holder) Bare() bool { return h.PipelineRunUID == "" }

// LeaseName is the name of the holder's lease.
func (h *Holder) LeaseName() string {
	uid := h.PipelineRunUID
	if h.Bare() {
		uid = h.RunUID
	}
	name := "run-" + uid
	if h.Slot != "" {
		name += "-" + h.Slot
	}
	return name
}

// Ref is the lease's holderRef; nil for a bare run.
func (h *Holder) Ref() *v1alpha1.HolderReference {
	if h.Bare() {
		return nil
	}
	return &v1alpha1.HolderReference{
		APIVersion: "tekton.dev/v1", Kind: "PipelineRun",
		Name: h.PipelineRun, UID: types.UID(h.PipelineRunUID),
	}
}

// Holds says whether a lease of the holder's name is the holder's own.
func (h *Holder) Holds(lease *v1alpha1.ClusterLease) bool {
	ref := lease.Spec.HolderRef
	if h.Bare() || ref == nil {
		return h.Bare() && ref == nil
	}
	return string(ref.UID) == h.PipelineRunUID
}
