package runs

import (
	"strings"
	"testing"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestFailureNamesWhatWasGathered(t *testing.T) {
	run := &pipelinev1.PipelineRun{ObjectMeta: metav1.ObjectMeta{Name: "run"}}
	run.Status.Status = ended(corev1.ConditionFalse, "Failed", "Tasks Completed: 2 (Failed: 1)")
	run.Status.ChildReferences = []pipelinev1.ChildStatusReference{
		{TypeMeta: runtime.TypeMeta{Kind: "TaskRun"}, Name: "run-gather", PipelineTaskName: TaskGather},
		{TypeMeta: runtime.TypeMeta{Kind: "TaskRun"}, Name: "run-boot", PipelineTaskName: "boot-vm"},
	}
	text := func(name, value string) pipelinev1.TaskRunResult {
		return pipelinev1.TaskRunResult{Name: name, Value: *pipelinev1.NewStructuredValues(value)}
	}
	cause := failedTaskRun("run-boot", 10, 11, text(ResultFailure, "no host has room"))
	long := failedTaskRun("run-boot", 10, 11, text(ResultFailure, strings.Repeat("no room ", 1000)))
	gather := func(results ...pipelinev1.TaskRunResult) *pipelinev1.TaskRun {
		t := failedTaskRun("run-gather", 5, 12, results...)
		return t
	}
	good := gather(text(ResultConfigMap, "gc-x-gather"))
	good.Status.Status = ended(corev1.ConditionTrue, "Succeeded", "")
	rows := map[string]struct {
		list []*pipelinev1.TaskRun
		task string
		want string
	}{
		"it is named last":                      {[]*pipelinev1.TaskRun{good, cause}, "boot-vm", "the infrastructure failed: no host has room; gathered: ConfigMap gc-x-gather"},
		"half of it counts":                     {[]*pipelinev1.TaskRun{gather(text(ResultConfigMap, "gc-x-gather")), cause}, "boot-vm", "no host has room; gathered: ConfigMap gc-x-gather"},
		"nothing was gathered":                  {[]*pipelinev1.TaskRun{gather(), cause}, "boot-vm", "the infrastructure failed: no host has room"},
		"to gather in vain is no cause":         {[]*pipelinev1.TaskRun{gather(text(ResultFailure, "cannot gather"))}, "", "Tasks Completed: 2 (Failed: 1)"},
		"a text that is no name is not shown":   {[]*pipelinev1.TaskRun{gather(text(ResultConfigMap, "password: hunter2")), cause}, "boot-vm", "no host has room"},
		"a long message does not cut the name ": {[]*pipelinev1.TaskRun{good, long}, "boot-vm", "; gathered: ConfigMap gc-x-gather"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			got := Failure(run, row.list)
			if got.Task != row.task || !strings.HasSuffix(got.Message, row.want) || len(got.Message) > 1024 {
				t.Errorf("task %q: %s", got.Task, got.Message)
			}
		})
	}
}
