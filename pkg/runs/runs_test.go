package runs

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

func param(name string, def *string) pipelinev1.ParamSpec {
	p := pipelinev1.ParamSpec{Name: name, Type: pipelinev1.ParamTypeString}
	if def != nil {
		p.Default = pipelinev1.NewStructuredValues(*def)
	}
	return p
}

func goodTask(name string) *pipelinev1.Task {
	return &pipelinev1.Task{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: guestcluster.SystemNamespace},
		Spec: pipelinev1.TaskSpec{
			Description: strings.Repeat("text for people ", 1000),
			Steps:       []pipelinev1.Step{{Name: "go", Image: "registry/steps@sha256:1", Args: []string{name}}},
		},
	}
}

func goodPipeline() *pipelinev1.Pipeline {
	size := "small"
	return &pipelinev1.Pipeline{
		ObjectMeta: metav1.ObjectMeta{Name: "provision-x", Namespace: guestcluster.SystemNamespace},
		Spec: pipelinev1.PipelineSpec{
			Params: pipelinev1.ParamSpecs{param(ParamInstance, nil), param(ParamNamespace, nil), param(ParamAPIHost, nil), param("size", &size)},
			Tasks: []pipelinev1.PipelineTask{
				{Name: "make", TaskRef: &pipelinev1.TaskRef{Name: "make"}},
				{Name: "publish", TaskRef: &pipelinev1.TaskRef{Name: "publish", Kind: pipelinev1.NamespacedTaskKind},
					Timeout: &metav1.Duration{Duration: 3 * time.Minute}},
			},
			Finally: []pipelinev1.PipelineTask{{Name: "gather", TaskRef: &pipelinev1.TaskRef{Name: "gather"}}},
			Results: []pipelinev1.PipelineResult{
				{Name: ResultAPIEndpoint, Value: *pipelinev1.NewStructuredValues("$(tasks.publish.results.endpoint)")},
				{Name: ResultOCPVersion, Value: *pipelinev1.NewStructuredValues("$(tasks.publish.results.version)")},
			},
		},
	}
}

func goodTasks() map[string]*pipelinev1.Task {
	return map[string]*pipelinev1.Task{"make": goodTask("make"), "publish": goodTask("publish"), "gather": goodTask("gather")}
}

func instance() *v1alpha1.ClusterInstance {
	return &v1alpha1.ClusterInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: "pool-0", UID: "uid-1"},
		Spec: v1alpha1.ClusterInstanceSpec{
			Type: v1alpha1.TypeCustom, PoolRef: &v1alpha1.OwnerPool{Name: "pool", UID: "p"},
			Template: v1alpha1.ClusterTemplate{Params: map[string]v1alpha1.ParamValue{"size": "large"}},
		},
		Status: v1alpha1.ClusterInstanceStatus{APIEndpoint: "https://gc.apps.example.org"},
	}
}

func build(t *testing.T, change func(*Input)) *pipelinev1.PipelineRun {
	t.Helper()
	in := Input{Instance: instance(), Pipeline: goodPipeline(), Tasks: goodTasks()}
	if change != nil {
		change(&in)
	}
	run, err := Build(in)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func TestBuildOwnsNamesAndFills(t *testing.T) {
	run := build(t, func(in *Input) { in.Attempt = 2 })
	i := instance()
	if run.Name != i.RunName(2) || run.Namespace != "ci" || run.Spec.TaskRunTemplate.ServiceAccountName != i.DerivedName() {
		t.Errorf("name %s/%s, ServiceAccount %s", run.Namespace, run.Name, run.Spec.TaskRunTemplate.ServiceAccountName)
	}
	owner := metav1.GetControllerOf(run)
	if owner == nil || owner.UID != "uid-1" || owner.BlockOwnerDeletion != nil {
		t.Errorf("owner %+v", owner)
	}
	wantLabels := map[string]string{
		guestcluster.ManagedByLabel: guestcluster.ManagedBy, guestcluster.InstanceLabel: "pool-0",
		guestcluster.InstanceUIDLabel: "uid-1", guestcluster.AttemptLabel: "2", guestcluster.PoolLabel: "pool",
	}
	if diff := cmp.Diff(wantLabels, run.Labels); diff != "" {
		t.Error(diff)
	}
	got := map[string]string{}
	for _, p := range run.Spec.Params {
		got[p.Name] = p.Value.StringVal
	}
	want := map[string]string{ParamInstance: "pool-0", ParamNamespace: "ci", ParamAPIHost: "gc.apps.example.org", "size": "large"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestBuildInlinesAndStaysSmall(t *testing.T) {
	pipeline := goodPipeline()
	run := build(t, func(in *Input) { in.Pipeline = pipeline })
	for _, task := range append(run.Spec.PipelineSpec.Tasks, run.Spec.PipelineSpec.Finally...) {
		if task.TaskRef != nil || task.TaskSpec == nil || task.TaskSpec.Steps[0].Args[0] != task.Name {
			t.Errorf("task %s is not inlined", task.Name)
		}
	}
	if pipeline.Spec.Tasks[0].TaskRef == nil {
		t.Error("the cached Pipeline was changed")
	}
	raw, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) > 100<<10 {
		t.Errorf("the run has %d bytes", len(raw))
	}
}

func TestBuildSetsAllTimeouts(t *testing.T) {
	for _, row := range []struct{ total, finally time.Duration }{
		{time.Hour, 5 * time.Minute}, {10 * time.Minute, time.Minute}, {5 * time.Hour, 5 * time.Minute},
	} {
		t.Run(fmt.Sprint(row.total), func(t *testing.T) {
			run := build(t, func(in *Input) {
				in.Instance.Spec.Provisioning = &v1alpha1.Provisioning{Timeout: &v1alpha1.Duration{Duration: metav1.Duration{Duration: row.total}}}
			})
			f, tasks := run.Spec.Timeouts, row.total-row.finally
			if f.Pipeline.Duration != row.total || f.Tasks.Duration != tasks || f.Finally.Duration != row.finally {
				t.Errorf("timeouts %v %v %v", f.Pipeline, f.Tasks, f.Finally)
			}
			spec := run.Spec.PipelineSpec
			if got := spec.Tasks[0].Timeout; got == nil || got.Duration != tasks {
				t.Errorf("task without a timeout got %v", got)
			}
			if got := spec.Tasks[1].Timeout; got == nil || got.Duration != min(3*time.Minute, tasks) {
				t.Errorf("task with a timeout got %v", got)
			}
			if got := spec.Finally[0].Timeout; got == nil || got.Duration != row.finally {
				t.Errorf("finally task got %v", got)
			}
		})
	}
}

func TestValidateNamesWhatToDo(t *testing.T) {
	rows := map[string]struct {
		change func(*pipelinev1.Pipeline, map[string]*pipelinev1.Task, *v1alpha1.ClusterTemplate)
		want   string
	}{
		"a required param is not declared": {func(p *pipelinev1.Pipeline, _ map[string]*pipelinev1.Task, _ *v1alpha1.ClusterTemplate) {
			p.Spec.Params = p.Spec.Params[1:]
		}, `declare the param "instance"`},
		"a param nobody fills": {func(p *pipelinev1.Pipeline, _ map[string]*pipelinev1.Task, _ *v1alpha1.ClusterTemplate) {
			p.Spec.Params = append(p.Spec.Params, param("flavour", nil))
		}, "set template.params.flavour"},
		"an array param": {func(p *pipelinev1.Pipeline, _ map[string]*pipelinev1.Task, _ *v1alpha1.ClusterTemplate) {
			p.Spec.Params[3].Type = pipelinev1.ParamTypeArray
		}, "make it a string"},
		"a template param the Pipeline does not know": {func(_ *pipelinev1.Pipeline, _ map[string]*pipelinev1.Task, c *v1alpha1.ClusterTemplate) {
			c.Params["colour"] = "red"
		}, "declares no such param"},
		"a template param that shadows": {func(_ *pipelinev1.Pipeline, _ map[string]*pipelinev1.Task, c *v1alpha1.ClusterTemplate) {
			c.Params[ParamAPIHost] = "evil"
		}, "remove it from the template"},
		"a missing result": {func(p *pipelinev1.Pipeline, _ map[string]*pipelinev1.Task, _ *v1alpha1.ClusterTemplate) {
			p.Spec.Results = p.Spec.Results[:1]
		}, `declare the result "ocp-version"`},
		"a missing Task": {func(_ *pipelinev1.Pipeline, m map[string]*pipelinev1.Task, _ *v1alpha1.ClusterTemplate) {
			delete(m, "gather")
		}, `Task "gather" is not in the namespace of the Pipeline`},
		"a resolver": {func(p *pipelinev1.Pipeline, _ map[string]*pipelinev1.Task, _ *v1alpha1.ClusterTemplate) {
			p.Spec.Tasks[0].TaskRef = &pipelinev1.TaskRef{ResolverRef: pipelinev1.ResolverRef{Resolver: "hub"}}
		}, "has a resolver"},
		"an image ko never built": {func(_ *pipelinev1.Pipeline, m map[string]*pipelinev1.Task, _ *v1alpha1.ClusterTemplate) {
			m["make"].Spec.Steps[0].Image = "ko://opdev.io/guestcluster/cmd/steps"
		}, "apply the Task with ko"},
		"a workspace nobody binds": {func(p *pipelinev1.Pipeline, _ map[string]*pipelinev1.Task, _ *v1alpha1.ClusterTemplate) {
			p.Spec.Workspaces = []pipelinev1.PipelineWorkspaceDeclaration{{Name: "source"}}
		}, `workspace "source" is never bound`},
		"a StepAction": {func(_ *pipelinev1.Pipeline, m map[string]*pipelinev1.Task, _ *v1alpha1.ClusterTemplate) {
			m["make"].Spec.Steps[0].Ref = &pipelinev1.Ref{Name: "clone"}
		}, "inline the step"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			pipeline, tasks, template := goodPipeline(), goodTasks(), instance().Spec.Template
			row.change(pipeline, tasks, &template)
			err := Validate(v1alpha1.TypeCustom, pipeline, tasks, &template)
			var invalid *InvalidError
			if !errors.As(err, &invalid) || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
	t.Run("an inlined taskSpec is fine", func(t *testing.T) {
		pipeline, tasks, template := goodPipeline(), goodTasks(), instance().Spec.Template
		pipeline.Spec.Tasks[0].TaskRef = nil
		pipeline.Spec.Tasks[0].TaskSpec = &pipelinev1.EmbeddedTask{TaskSpec: tasks["make"].Spec}
		if err := Validate(v1alpha1.TypeCustom, pipeline, tasks, &template); err != nil {
			t.Error(err)
		}
	})
}
