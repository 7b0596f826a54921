package runs

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// findProblem returns the first breach of the contract, or nothing.
func findProblem(kind v1alpha1.ClusterType, p *pipelinev1.Pipeline, tasks map[string]*pipelinev1.Task, template *v1alpha1.ClusterTemplate) string {
	checks := []func() string{
		func() string { return paramProblem(kind, p.Spec.Params, template.Params) },
		func() string { return templateProblem(kind, p.Spec.Params, template.Params) },
		func() string { return resultProblem(p.Spec.Results) },
		func() string { return workspaceProblem(p.Spec.Workspaces) },
		func() string { return tasksProblem(slices.Concat(p.Spec.Tasks, p.Spec.Finally), tasks) },
	}
	for _, check := range checks {
		if problem := check(); problem != "" {
			return problem
		}
	}
	return ""
}

func paramProblem(kind v1alpha1.ClusterType, declared pipelinev1.ParamSpecs, given map[string]v1alpha1.ParamValue) string {
	for _, name := range requiredParams {
		if !slices.ContainsFunc(declared, func(p pipelinev1.ParamSpec) bool { return p.Name == name }) {
			return fmt.Sprintf("declare the param %q: the controller hands it to every provisioning Pipeline", name)
		}
	}
	for _, p := range declared {
		if p.Type != "" && p.Type != pipelinev1.ParamTypeString {
			return fmt.Sprintf("param %q has type %s: make it a string", p.Name, p.Type)
		}
		_, ok := given[p.Name]
		if !ok && !filled(kind, p.Name) && p.Default == nil {
			return fmt.Sprintf("param %q has no default and nobody fills it: set template.params.%s in the pool or give it a default", p.Name, p.Name)
		}
	}
	return ""
}

func templateProblem(kind v1alpha1.ClusterType, declared pipelinev1.ParamSpecs, given map[string]v1alpha1.ParamValue) string {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if filled(kind, name) {
			return fmt.Sprintf("template.params.%s: the controller fills this param itself: remove it from the template", name)
		}
		if !slices.ContainsFunc(declared, func(p pipelinev1.ParamSpec) bool { return p.Name == name }) {
			return fmt.Sprintf("template.params.%s: the Pipeline declares no such param: declare it or remove it from the template", name)
		}
	}
	return ""
}

func resultProblem(declared []pipelinev1.PipelineResult) string {
	for _, name := range requiredResults {
		if !slices.ContainsFunc(declared, func(r pipelinev1.PipelineResult) bool { return r.Name == name }) {
			return fmt.Sprintf("declare the result %q", name)
		}
	}
	return ""
}

func workspaceProblem(declared []pipelinev1.PipelineWorkspaceDeclaration) string {
	for _, w := range declared {
		if !w.Optional {
			return fmt.Sprintf("workspace %q is never bound: make it optional or remove it", w.Name)
		}
	}
	return ""
}

func tasksProblem(list []pipelinev1.PipelineTask, tasks map[string]*pipelinev1.Task) string {
	for i := range list {
		if problem := taskProblem(&list[i], tasks); problem != "" {
			return fmt.Sprintf("task %q: %s", list[i].Name, problem)
		}
	}
	return ""
}

func taskProblem(task *pipelinev1.PipelineTask, tasks map[string]*pipelinev1.Task) string {
	ref := task.TaskRef
	switch {
	case task.PipelineRef != nil || task.PipelineSpec != nil:
		return "nested Pipelines are not supported: use a Task"
	case ref == nil && task.TaskSpec == nil:
		return "name a Task in taskRef or inline a taskSpec"
	case ref == nil:
		return specProblem(&task.TaskSpec.TaskSpec)
	case ref.Resolver != "":
		return "taskRef has a resolver: refer by name to a Task in the controller's namespace, or inline a taskSpec"
	case ref.Kind != "" && ref.Kind != pipelinev1.NamespacedTaskKind:
		return fmt.Sprintf("taskRef has kind %s: only Tasks are supported", ref.Kind)
	case tasks[ref.Name] == nil:
		return fmt.Sprintf("Task %q is not in the namespace of the Pipeline: apply it there", ref.Name)
	}
	return specProblem(&tasks[ref.Name].Spec)
}

// specProblem looks for what cannot run from an inlined Task: StepActions are
// looked up in the instance's namespace, and ko:// was never resolved.
func specProblem(spec *pipelinev1.TaskSpec) string {
	var images []string
	for _, step := range spec.Steps {
		if step.Ref != nil {
			return fmt.Sprintf("step %q uses a StepAction: inline the step", step.Name)
		}
		images = append(images, step.Image)
	}
	for _, sidecar := range spec.Sidecars {
		images = append(images, sidecar.Image)
	}
	if spec.StepTemplate != nil {
		images = append(images, spec.StepTemplate.Image)
	}
	for _, image := range images {
		if strings.HasPrefix(image, "ko://") {
			return fmt.Sprintf("image %s was never built: apply the Task with ko (ko apply -f tasks/)", image)
		}
	}
	return ""
}
