package runs

import (
	"fmt"
	"regexp"
	"slices"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	"knative.dev/pkg/apis"
)

// Exit codes of a container that a signal ended: SIGKILL, and SIGTERM.
const (
	exitKilled     int32 = 137
	exitTerminated int32 = 143
)

const oomKilled = "OOMKilled"

// initKilled is Tekton's text on an init container of its own that was killed.
// A Go program that is process 1 ends with 2 when SIGTERM comes.
var initKilled = regexp.MustCompile(`^init container failed, "[^"]*" exited with code (2|137|143)\b`)

// LostPod says which pod was taken from a failed run, and empty when the run
// failed for a reason of its own: then another attempt would end the same way.
//
//	the TaskRun was cancelled or timed out, a container ran out of memory   its own
//	the pod was evicted                                                     lost
//	an init container of Tekton's was killed                                lost
//	no step failed, but the pod did                                         lost
//	the step ended with 13, 137 or 143                                      lost
//	else                                                                    its own
func LostPod(run *pipelinev1.PipelineRun, taskRuns []*pipelinev1.TaskRun) string {
	failed := firstFailed(causes(run, taskRuns))
	if failed == nil {
		return ""
	}
	why := lost(failed)
	if why == "" {
		return ""
	}
	return fmt.Sprintf("lost the pod of task %s (%s)", taskName(run, failed), why)
}

func lost(t *pipelinev1.TaskRun) string {
	c := t.Status.GetCondition(apis.ConditionSucceeded)
	step := failedStep(t)
	switch pipelinev1.TaskRunReason(c.Reason) {
	case pipelinev1.TaskRunReasonPodEvicted:
		return "evicted: " + Redact(c.Message)
	case pipelinev1.TaskRunReasonInitContainerFailed:
		if initKilled.MatchString(c.Message) {
			return "killed while it started"
		}
	case pipelinev1.TaskRunReasonFailed, pipelinev1.TaskRunReasonStepFailed:
		if step != nil && killed(step.Terminated) {
			return fmt.Sprintf("step %s, exit code %d", step.Name, step.Terminated.ExitCode)
		}
		if step == nil && t.Status.PodName != "" {
			return "no step had failed: " + Redact(c.Message)
		}
	}
	return ""
}

func killed(end *corev1.ContainerStateTerminated) bool {
	return end.Reason != oomKilled && slices.Contains([]int32{ExitInterrupted, exitKilled, exitTerminated}, end.ExitCode)
}
