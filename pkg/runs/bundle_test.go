package runs

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

func bundlePipeline() *pipelinev1.Pipeline {
	empty, amd64 := "", "amd64"
	p := &pipelinev1.Pipeline{ObjectMeta: metav1.ObjectMeta{Name: PrepareBundle, Namespace: guestcluster.BundleNamespace}}
	p.Spec.Params = pipelinev1.ParamSpecs{param(ParamVersion, nil), param(ParamArch, &amd64)}
	for _, name := range []string{ParamBundleURL, ParamSHA256URL, ParamSHA256, ParamStorageClass, ParamGoldenVolumeSize, ParamBundleUID} {
		p.Spec.Params = append(p.Spec.Params, param(name, &empty))
	}
	for _, name := range bundleResults {
		p.Spec.Results = append(p.Spec.Results, pipelinev1.PipelineResult{Name: name})
	}
	p.Spec.Tasks = []pipelinev1.PipelineTask{
		{Name: "make", TaskRef: &pipelinev1.TaskRef{Name: "make"}, Timeout: &metav1.Duration{Duration: time.Minute}},
		{Name: "publish", TaskRef: &pipelinev1.TaskRef{Name: "publish"}},
	}
	return p
}

func theBundle() *v1alpha1.CRCBundle {
	return &v1alpha1.CRCBundle{ObjectMeta: metav1.ObjectMeta{Name: "crc-4.19.3-amd64", UID: "b"}, Spec: v1alpha1.CRCBundleSpec{Version: "4.19.3", Arch: "amd64"}}
}

func TestBundleRunIsInlinedBoundedAndOwned(t *testing.T) {
	b := theBundle()
	size := resource.MustParse("40Gi")
	b.Spec.GoldenVolumeSize, b.Spec.StorageClassName = &size, "fast"
	run, err := BuildBundle(BundleInput{Bundle: b, Pipeline: bundlePipeline(), Tasks: goodTasks(), Attempt: 1})
	if err != nil {
		t.Fatal(err)
	}
	if run.Name != b.RunName(1) || run.Namespace != "guestcluster-bundles" || run.Labels[guestcluster.BundleLabel] != b.Name ||
		!metav1.IsControlledBy(run, b) || run.OwnerReferences[0].BlockOwnerDeletion != nil {
		t.Errorf("metadata is %+v", run.ObjectMeta)
	}
	limits := run.Spec.Timeouts
	if limits.Pipeline.Duration != BundleTimeout || limits.Tasks.Duration+limits.Finally.Duration != BundleTimeout {
		t.Errorf("timeouts are %v", limits)
	}
	for i, want := range []time.Duration{time.Minute, limits.Tasks.Duration} {
		task := run.Spec.PipelineSpec.Tasks[i]
		if task.TaskRef != nil || task.TaskSpec == nil || task.Timeout.Duration != want {
			t.Errorf("task %s: ref %v, timeout %v", task.Name, task.TaskRef, task.Timeout)
		}
	}
	given := map[string]string{}
	for _, p := range run.Spec.Params {
		given[p.Name] = p.Value.StringVal
	}
	want := map[string]string{"version": "4.19.3", "arch": "amd64", "storage-class": "fast", "golden-volume-size": "40Gi", "bundle-uid": "b"}
	if diff := cmp.Diff(want, given); diff != "" {
		t.Error(diff)
	}
	if run.Spec.TaskRunTemplate.ServiceAccountName != "default" {
		t.Errorf("ServiceAccount %q", run.Spec.TaskRunTemplate.ServiceAccountName)
	}
}

func TestBundlePipelineKeepsTheContract(t *testing.T) {
	rows := map[string]struct {
		change func(*pipelinev1.Pipeline, map[string]*pipelinev1.Task)
		says   string
	}{
		"a good one": {func(*pipelinev1.Pipeline, map[string]*pipelinev1.Task) {}, ""},
		"no version": {func(p *pipelinev1.Pipeline, _ map[string]*pipelinev1.Task) { p.Spec.Params = p.Spec.Params[1:] }, `declare the param "version"`},
		"a param that nobody fills": {func(p *pipelinev1.Pipeline, _ map[string]*pipelinev1.Task) {
			p.Spec.Params = append(p.Spec.Params, param("x", nil))
		}, `param "x" has no default`},
		"a missing result": {func(p *pipelinev1.Pipeline, _ map[string]*pipelinev1.Task) { p.Spec.Results = p.Spec.Results[1:] }, `declare the result "golden-volume"`},
		"a workspace": {func(p *pipelinev1.Pipeline, _ map[string]*pipelinev1.Task) {
			p.Spec.Workspaces = []pipelinev1.PipelineWorkspaceDeclaration{{Name: "w"}}
		}, `workspace "w"`},
		"a missing Task": {func(_ *pipelinev1.Pipeline, tasks map[string]*pipelinev1.Task) { delete(tasks, "make") }, `Task "make"`},
		"an image never built": {func(_ *pipelinev1.Pipeline, tasks map[string]*pipelinev1.Task) {
			tasks["make"].Spec.Steps[0].Image = "ko://x"
		}, "was never built"},
	}
	for name, row := range rows {
		pipeline, tasks := bundlePipeline(), goodTasks()
		row.change(pipeline, tasks)
		_, err := BuildBundle(BundleInput{Bundle: theBundle(), Pipeline: pipeline, Tasks: tasks})
		var invalid *InvalidError
		if row.says == "" && err == nil {
			continue
		}
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestSpecOfAPersonsRun(t *testing.T) {
	run := &pipelinev1.PipelineRun{Spec: pipelinev1.PipelineRunSpec{PipelineRef: &pipelinev1.PipelineRef{Name: PrepareBundle}}}
	if _, ok := BundleSpec(run); ok || !PreparesBundle(run) {
		t.Error("a run without a version has a bundle, or is no preparation")
	}
	for name, value := range map[string]string{ParamVersion: "4.19.3", ParamGoldenVolumeSize: "40Gi", ParamBundleURL: "https://mirror/x", ParamStorageClass: ""} {
		run.Spec.Params = append(run.Spec.Params, pipelinev1.Param{Name: name, Value: *pipelinev1.NewStructuredValues(value)})
	}
	size := resource.MustParse("40Gi")
	spec, ok := BundleSpec(run)
	if diff := cmp.Diff(v1alpha1.CRCBundleSpec{Version: "4.19.3", Arch: "amd64", BundleURL: "https://mirror/x", GoldenVolumeSize: &size}, spec); diff != "" || !ok {
		t.Error(diff, ok)
	}
	labelled := &pipelinev1.PipelineRun{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"tekton.dev/pipeline": PrepareBundle}}}
	if !PreparesBundle(labelled) || PreparesBundle(&pipelinev1.PipelineRun{}) {
		t.Error("runs are not told by their label")
	}
}

func TestBundleFailureBlamesTheBundle(t *testing.T) {
	for code, want := range map[int32]string{
		ExitUser:           "the version or the bundle's spec needs a change: no such file",
		ExitInfrastructure: "the infrastructure failed: no such file",
	} {
		said := pipelinev1.TaskRunResult{Name: ResultFailure, Value: *pipelinev1.NewStructuredValues("no such file")}
		if got := BundleFailure(&pipelinev1.PipelineRun{}, []*pipelinev1.TaskRun{failedTaskRun("t", 1, code, said)}); got.Message != want || got.ExitCode != code {
			t.Errorf("got %+v, want %q", got, want)
		}
	}
}
