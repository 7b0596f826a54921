package runs

import (
	"slices"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	"knative.dev/pkg/apis"
)

// Phase is where a run stands.
type Phase string

const (
	// Queued runs were not looked at by Tekton yet, or are held as Pending.
	Queued Phase = "Queued"
	// Running runs have not ended; stopping and finally count as running.
	Running Phase = "Running"
	// Succeeded runs left their results.
	Succeeded Phase = "Succeeded"
	// Failed runs ended by a failing task or an invalid spec.
	Failed Phase = "Failed"
	// TimedOut runs were ended by their own timeout.
	TimedOut Phase = "TimedOut"
	// Cancelled runs were ended by somebody else.
	Cancelled Phase = "Cancelled"
)

// Result is the outcome of a run, read from metadata, conditions and child references only.
type Result struct {
	Phase Phase
	// Reason and Message are Tekton's.
	Reason, Message string
	// TaskRuns are the names of the run's TaskRuns, in order of creation.
	TaskRuns []string
}

// Done says whether the run has ended.
func (r Result) Done() bool {
	return r.Phase != Queued && r.Phase != Running
}

// Outcome reads a run.
func Outcome(run *pipelinev1.PipelineRun) Result {
	c := run.Status.GetCondition(apis.ConditionSucceeded)
	result := Result{Phase: phase(c), TaskRuns: taskRuns(run)}
	if c != nil {
		result.Reason, result.Message = c.Reason, Redact(c.Message)
	}
	return result
}

func phase(c *apis.Condition) Phase {
	switch {
	case c == nil:
		return Queued
	case c.Status == corev1.ConditionTrue:
		return Succeeded
	case c.Status == corev1.ConditionUnknown && c.Reason == string(pipelinev1.PipelineRunReasonPending):
		return Queued
	case c.Status == corev1.ConditionUnknown:
		return Running
	case cancelled(c.Reason):
		return Cancelled
	case c.Reason == string(pipelinev1.PipelineRunReasonTimedOut):
		return TimedOut
	default:
		return Failed
	}
}

func cancelled(reason string) bool {
	return slices.Contains([]string{
		string(pipelinev1.PipelineRunReasonCancelled),
		string(pipelinev1.PipelineRunReasonCancelledRunningFinally),
		string(pipelinev1.PipelineRunReasonStoppedRunningFinally),
		"StoppedRunFinally", "CancelledRunFinally",
	}, reason)
}

func taskRuns(run *pipelinev1.PipelineRun) []string {
	var names []string
	for _, child := range run.Status.ChildReferences {
		if child.Kind == "TaskRun" || child.Kind == "" {
			names = append(names, child.Name)
		}
	}
	return names
}

// Results are the results that a run has left, by name.
func Results(run *pipelinev1.PipelineRun) map[string]string {
	out := map[string]string{}
	for _, r := range run.Status.Results {
		out[r.Name] = r.Value.StringVal
	}
	return out
}
