package step

import (
	"flag"
	"os"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// failurePath is the flag of steps whose Task has a result for why it failed:
// the controller shows it, where a run's own status only tells an exit code.
const failurePath = "failure-path"

// maxFailure leaves the other results their room in the termination message.
const maxFailure = 1024

// BindFailure declares the flag for the result that says why a step failed.
func BindFailure(flags *flag.FlagSet) {
	flags.String(failurePath, "", "result file for why the step failed")
}

// explain is best effort: the error itself is what counts.
func explain(path, text string) {
	_ = os.WriteFile(path, []byte(v1alpha1.Truncate(text, maxFailure)), 0o644)
}

// Result is a value for the file that the Task names. Never a secret: results
// are readable by all who may read the run.
type Result struct {
	Path, Value string
}

// WriteResults writes all results. A step calls it once, as its last act.
func WriteResults(results ...Result) error {
	for _, r := range results {
		if err := os.WriteFile(r.Path, []byte(r.Value), 0o644); err != nil {
			return InfraError("write result: %w", err)
		}
	}
	return nil
}
