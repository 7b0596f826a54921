package runs

import (
	"cmp"
	"slices"
	"strings"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"knative.dev/pkg/apis"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// Exit codes of the steps in our step image.
const (
	ExitUser           int32 = 10
	ExitInfrastructure int32 = 11
	ExitTimeout        int32 = 12
	// ExitInterrupted is a step's that was told to stop.
	ExitInterrupted int32 = 13
)

const taskLabel = "tekton.dev/pipelineTask"

// maxFailure leaves room for the name of a ConfigMap in a condition's message.
const maxFailure = 700

// Failure diagnoses a run that ended badly from those of its TaskRuns that
// could be read. Reason and time are the caller's. What was gathered of the
// guest is named last; that nothing could be gathered is never the cause.
func Failure(run *pipelinev1.PipelineRun, taskRuns []*pipelinev1.TaskRun) v1alpha1.FailureStatus {
	gathered := ""
	for _, t := range taskRuns {
		if taskName(run, t) == TaskGather {
			gathered = cmp.Or(gathered, configMap(t))
		}
	}
	failure := diagnose(run, causes(run, taskRuns))
	if gathered != "" {
		failure.Message = v1alpha1.Truncate(failure.Message, maxFailure) + "; gathered: ConfigMap " + gathered
	}
	return failure
}

// causes are the TaskRuns that can make a run fail.
func causes(run *pipelinev1.PipelineRun, taskRuns []*pipelinev1.TaskRun) []*pipelinev1.TaskRun {
	return slices.DeleteFunc(slices.Clone(taskRuns), func(t *pipelinev1.TaskRun) bool { return taskName(run, t) == TaskGather })
}

// configMap is what a gather TaskRun says it made; no other text passes.
func configMap(t *pipelinev1.TaskRun) string {
	name := result(t, ResultConfigMap)
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return ""
	}
	return name
}

func diagnose(run *pipelinev1.PipelineRun, taskRuns []*pipelinev1.TaskRun) v1alpha1.FailureStatus {
	failure := v1alpha1.FailureStatus{Run: run.Name, Message: Outcome(run).Message}
	failed := firstFailed(taskRuns)
	if failed == nil {
		return failure
	}
	failure.Task = taskName(run, failed)
	if container, text := pullProblem(failed); text != "" {
		failure.Step, failure.Message = container, Redact(text)
		return failure
	}
	message := failed.Status.GetCondition(apis.ConditionSucceeded).Message
	if step := failedStep(failed); step != nil {
		failure.Step, failure.ExitCode = step.Name, step.Terminated.ExitCode
	}
	if said := result(failed, ResultFailure); said != "" {
		message = said
	}
	failure.Message = strings.TrimSpace(hint(failure.ExitCode) + Redact(message))
	return failure
}

// firstFailed is the TaskRun that failed first: later ones may be cancelled for it.
func firstFailed(list []*pipelinev1.TaskRun) *pipelinev1.TaskRun {
	failed := slices.DeleteFunc(slices.Clone(list), func(t *pipelinev1.TaskRun) bool {
		c := t.Status.GetCondition(apis.ConditionSucceeded)
		return c == nil || c.Status != corev1.ConditionFalse
	})
	slices.SortStableFunc(failed, func(a, b *pipelinev1.TaskRun) int {
		return cmp.Compare(completed(a), completed(b))
	})
	if len(failed) == 0 {
		return nil
	}
	return failed[0]
}

func completed(t *pipelinev1.TaskRun) int64 {
	if t.Status.CompletionTime == nil {
		return 1<<63 - 1
	}
	return t.Status.CompletionTime.UnixNano()
}

func taskName(run *pipelinev1.PipelineRun, t *pipelinev1.TaskRun) string {
	for _, child := range run.Status.ChildReferences {
		if child.Name == t.Name && child.PipelineTaskName != "" {
			return child.PipelineTaskName
		}
	}
	return cmp.Or(t.Labels[taskLabel], t.Name)
}

// failedStep skips the steps that Tekton ended because an earlier one failed.
func failedStep(t *pipelinev1.TaskRun) *pipelinev1.StepState {
	for i, step := range t.Status.Steps {
		if step.Terminated != nil && step.Terminated.ExitCode != 0 && step.TerminationReason != "Skipped" {
			return &t.Status.Steps[i]
		}
	}
	return nil
}

func result(t *pipelinev1.TaskRun, name string) string {
	for _, r := range t.Status.Results {
		if r.Name == name {
			return r.Value.StringVal
		}
	}
	return ""
}

func hint(code int32) string {
	switch code {
	case ExitUser:
		return "the pool's template needs a change: "
	case ExitInfrastructure:
		return "the infrastructure failed: "
	case ExitTimeout:
		return "a step ran out of time: "
	default:
		return ""
	}
}
