package lessee

import (
	"flag"
	"regexp"

	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/steps/step"
)

// Holder is the run that a step's pod belongs to, as the pod's labels tell.
type Holder struct {
	// Namespace of the pod, its runs and the lease.
	Namespace string
	// PipelineRun and its UID; empty in a TaskRun of its own.
	PipelineRun, PipelineRunUID string
	// TaskRunUID is the UID of the pod's TaskRun.
	TaskRunUID string
	// Slot tells several leases of one run apart.
	Slot string
}

// Bind declares the flags that describe the holder.
func (h *Holder) Bind(flags *flag.FlagSet) {
	flags.StringVar(&h.Namespace, "namespace", "", "namespace of the pod")
	flags.StringVar(&h.PipelineRun, "pipeline-run", "", "name of the pod's PipelineRun")
	flags.StringVar(&h.PipelineRunUID, "pipeline-run-uid", "", "UID of the pod's PipelineRun")
	flags.StringVar(&h.TaskRunUID, "task-run-uid", "", "UID of the pod's TaskRun")
	flags.StringVar(&h.Slot, "slot", "", "tells several leases of one run apart")
}

// slotPattern keeps run-<UID>-<slot> a DNS label.
var slotPattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,18}[a-z0-9])?$`)

// Validate says what is missing or malformed.
func (h *Holder) Validate() error {
	switch {
	case h.Namespace == "":
		return step.UserError("--namespace is empty: the Task must take it from the pod")
	case h.Slot != "" && !slotPattern.MatchString(h.Slot):
		return step.UserError("slot %q: use at most 20 lower case letters, digits and dashes", h.Slot)
	case (h.PipelineRun == "") != (h.PipelineRunUID == ""):
		return step.UserError("--pipeline-run and --pipeline-run-uid go together")
	case h.PipelineRunUID == "" && h.TaskRunUID == "":
		return step.UserError("the pod belongs to no PipelineRun or TaskRun: its labels do not tell who would hold the lease")
	}
	return nil
}

// Bare says whether the pod's TaskRun belongs to no PipelineRun.
func (h *Holder) Bare() bool { return h.PipelineRunUID == "" }

// LeaseName is the name of the holder's lease.
func (h *Holder) LeaseName() string {
	uid := h.PipelineRunUID
	if h.Bare() {
		uid = h.TaskRunUID
	}
	name := "run-" + uid
	if h.Slot != "" {
		name += "-" + h.Slot
	}
	return name
}

// Ref is the lease's holderRef; nil for a bare TaskRun.
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
