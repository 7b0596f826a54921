package runs

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// bootRun is a failed run whose only cause is a TaskRun of task boot-vm.
func bootRun(reason pipelinev1.TaskRunReason, message string, steps ...pipelinev1.StepState) (*pipelinev1.PipelineRun, []*pipelinev1.TaskRun) {
	run := &pipelinev1.PipelineRun{ObjectMeta: metav1.ObjectMeta{Name: "run"}}
	run.Status.ChildReferences = []pipelinev1.ChildStatusReference{
		{TypeMeta: runtime.TypeMeta{Kind: "TaskRun"}, Name: "run-boot", PipelineTaskName: "boot-vm"},
		{TypeMeta: runtime.TypeMeta{Kind: "TaskRun"}, Name: "run-gather", PipelineTaskName: TaskGather},
	}
	boot := &pipelinev1.TaskRun{ObjectMeta: metav1.ObjectMeta{Name: "run-boot"}}
	boot.Status.Status, boot.Status.Steps, boot.Status.PodName = ended(corev1.ConditionFalse, reason.String(), message), steps, "run-boot-pod"
	return run, []*pipelinev1.TaskRun{failedTaskRun("run-gather", 5, ExitInterrupted), boot}
}

func stepEnded(code int32, reason string) pipelinev1.StepState {
	return pipelinev1.StepState{Name: "boot", ContainerState: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}}}
}

func TestLostPod(t *testing.T) {
	const failed, initFailed = pipelinev1.TaskRunReasonStepFailed, pipelinev1.TaskRunReasonInitContainerFailed
	rows := map[string]struct {
		reason  pipelinev1.TaskRunReason
		message string
		steps   []pipelinev1.StepState
		want    string
	}{
		"told to stop":             {failed, "", []pipelinev1.StepState{stepEnded(13, "Error")}, "step boot, exit code 13"},
		"told by an older Tekton":  {pipelinev1.TaskRunReasonFailed, "", []pipelinev1.StepState{stepEnded(13, "Error")}, "step boot, exit code 13"},
		"killed":                   {failed, "", []pipelinev1.StepState{stepEnded(137, "Error")}, "step boot, exit code 137"},
		"ended by SIGTERM":         {failed, "", []pipelinev1.StepState{stepEnded(143, "Error")}, "step boot, exit code 143"},
		"evicted":                  {pipelinev1.TaskRunReasonPodEvicted, "low on memory", nil, "evicted: low on memory"},
		"killed while it started":  {initFailed, `init container failed, "prepare" exited with code 2: Error`, nil, "killed while it started"},
		"the pod failed by itself": {pipelinev1.TaskRunReasonFailed, "Pod was rejected: OutOfcpu", nil, "no step had failed: Pod was rejected: OutOfcpu"},

		"out of memory":               {failed, "", []pipelinev1.StepState{stepEnded(137, oomKilled)}, ""},
		"out of memory by its reason": {pipelinev1.TaskRunReasonStepOOM, "", []pipelinev1.StepState{stepEnded(137, "Error")}, ""},
		"the infrastructure failed":   {failed, "", []pipelinev1.StepState{stepEnded(11, "Error")}, ""},
		"the user erred":              {failed, "", []pipelinev1.StepState{stepEnded(10, "Error")}, ""},
		"cancelled":                   {pipelinev1.TaskRunReasonCancelled, "", []pipelinev1.StepState{stepEnded(137, "Error")}, ""},
		"timed out":                   {pipelinev1.TaskRunReasonTimedOut, "", []pipelinev1.StepState{stepEnded(13, "Error")}, ""},
		"an init container broke":     {initFailed, `init container failed, "prepare" exited with code 1: Error`, nil, ""},
		"a code that begins like it":  {initFailed, `init container failed, "prepare" exited with code 20: Error`, nil, ""},
		"no pod was made":             {pipelinev1.TaskRunReasonFailed, "quota", nil, ""},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			run, taskRuns := bootRun(row.reason, row.message, row.steps...)
			if name == "no pod was made" {
				taskRuns[1].Status.PodName = ""
			}
			want := row.want
			if want != "" {
				want = "lost the pod of task boot-vm (" + want + ")"
			}
			if got := LostPod(run, taskRuns); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
	run, taskRuns := bootRun(failed, "")
	if got := LostPod(run, taskRuns[:1]); got != "" {
		t.Errorf("the pod of gather counts: %q", got)
	}
}

func TestFailureNamesTheImageThatCannotBePulled(t *testing.T) {
	pulled := func(message string) v1alpha1.FailureStatus {
		run, taskRuns := bootRun(pipelinev1.TaskRunReasonImagePullFailed, message, stepEnded(1, "TaskRunImagePullFailed"))
		return Failure(run, taskRuns)
	}
	got := pulled(`the step "fix" in TaskRun "run-boot" failed to pull the image "registry/x:1". The pod errored with the message: "not found."`)
	want := v1alpha1.FailureStatus{Run: "run", Task: "boot-vm", Step: "fix", Message: "the node cannot pull image registry/x:1 of step fix: " +
		`correct the image in the Task, or see to its registry: The pod errored with the message: "not found."`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := pulled("some other words"); got.Message != "some other words" || got.ExitCode != 0 {
		t.Errorf("got %+v", got)
	}
}
