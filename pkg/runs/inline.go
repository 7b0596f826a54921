package runs

import (
	"time"

	"github.com/tektoncd/pipeline/pkg/apis/pipeline/pod"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
)

func inline(pipeline *pipelinev1.Pipeline, tasks map[string]*pipelinev1.Task, l limits) *pipelinev1.PipelineSpec {
	spec := pipeline.Spec.DeepCopy()
	spec.Description = ""
	stripDescriptions(spec.Params)
	for i := range spec.Results {
		spec.Results[i].Description = ""
	}
	inlineTasks(spec.Tasks, tasks, l.tasks)
	inlineTasks(spec.Finally, tasks, l.finally)
	return spec
}

func inlineTasks(list []pipelinev1.PipelineTask, tasks map[string]*pipelinev1.Task, limit time.Duration) {
	for i := range list {
		task := &list[i]
		task.Description = ""
		if task.TaskRef != nil {
			task.TaskSpec = &pipelinev1.EmbeddedTask{TaskSpec: *tasks[task.TaskRef.Name].Spec.DeepCopy()}
			task.TaskRef = nil
		}
		if task.TaskSpec != nil {
			stripTask(&task.TaskSpec.TaskSpec)
		}
		bound(task, limit)
	}
}

// stripTask drops texts for people: Tekton copies the spec into the status, and
// the run with its status must stay far below etcd's limit.
func stripTask(spec *pipelinev1.TaskSpec) {
	spec.Description = ""
	stripDescriptions(spec.Params)
	for i := range spec.Results {
		spec.Results[i].Description = ""
	}
}

func stripDescriptions(list pipelinev1.ParamSpecs) {
	for i := range list {
		list[i].Description = ""
	}
}

func podTemplate() *pod.PodTemplate {
	links := false
	return &pod.PodTemplate{
		EnableServiceLinks: &links,
		SecurityContext: &corev1.PodSecurityContext{
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
}
