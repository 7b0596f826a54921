package step

import (
	"errors"
	"flag"

	"opdev.io/guestcluster/pkg/lessee"
)

// BindHolder declares the flags that describe who holds a lease: the labels of
// the step's pod tell.
func BindHolder(flags *flag.FlagSet, h *lessee.Holder) {
	flags.StringVar(&h.Namespace, "namespace", "", "namespace of the pod")
	flags.StringVar(&h.PipelineRun, "pipeline-run", "", "name of the pod's PipelineRun")
	flags.StringVar(&h.PipelineRunUID, "pipeline-run-uid", "", "UID of the pod's PipelineRun")
	flags.StringVar(&h.RunUID, "task-run-uid", "", "UID of the pod's TaskRun")
	flags.StringVar(&h.Slot, "slot", "", "tells several leases of one run apart")
}

// OfProblem is the error that ends a step with a problem; nil for none.
func OfProblem(p *lessee.Problem) error {
	if p == nil {
		return nil
	}
	code := map[lessee.Class]int{lessee.User: ExitUser, lessee.Infra: ExitInfra, lessee.Timeout: ExitTimeout}[p.Class]
	return &Error{Code: code, Err: errors.New(p.Text)}
}
