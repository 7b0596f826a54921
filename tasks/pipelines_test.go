package tasks

import (
	"regexp"
	"slices"
	"testing"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
)

var taskResult = regexp.MustCompile(`\$\(tasks\.([a-z0-9-]+)\.results\.([a-z0-9-]+)\)`)

func TestPipelinesGiveTasksExactlyTheirParams(t *testing.T) {
	s := load(t)
	for name, pipeline := range s.pipelines {
		for _, task := range allTasks(pipeline) {
			where := "Pipeline " + name + ", task " + task.Name
			spec := s.specOf(&task)
			if spec == nil {
				t.Errorf("%s: there is no Task %q", where, task.TaskRef.Name)
				continue
			}
			checkParams(t, where, task.Params, spec.Params)
			if task.Timeout == nil || task.Timeout.Duration <= 0 {
				t.Errorf("%s has no timeout: Tekton's hour is not ours", where)
			}
			for _, w := range task.Workspaces {
				if !slices.ContainsFunc(spec.Workspaces, func(d pipelinev1.WorkspaceDeclaration) bool { return d.Name == w.Name }) {
					t.Errorf("%s: the Task has no workspace %q", where, w.Name)
				}
			}
		}
	}
}

func (s *suite) specOf(task *pipelinev1.PipelineTask) *pipelinev1.TaskSpec {
	if task.TaskSpec != nil {
		return &task.TaskSpec.TaskSpec
	}
	// Our custom tasks declare what the Tasks of the same work declare.
	name := task.TaskRef.Name
	if same := map[pipelinev1.TaskKind]string{"ClusterLease": "acquire-cluster", "ClusterRelease": "release-cluster"}[task.TaskRef.Kind]; same != "" {
		name = same
	}
	if found := s.tasks[name]; found != nil {
		return &found.Spec
	}
	return nil
}

func checkParams(t *testing.T, where string, given pipelinev1.Params, declared pipelinev1.ParamSpecs) {
	t.Helper()
	for _, p := range given {
		if !slices.Contains(paramNames(declared), p.Name) {
			t.Errorf("%s: the Task has no param %q", where, p.Name)
		}
	}
	for _, p := range declared {
		if p.Default == nil && !slices.ContainsFunc(given, func(g pipelinev1.Param) bool { return g.Name == p.Name }) {
			t.Errorf("%s: param %q is not given", where, p.Name)
		}
	}
}

func TestPipelineParamsAndResultsExist(t *testing.T) {
	s := load(t)
	for name, pipeline := range s.pipelines {
		where := "Pipeline " + name
		var given []any
		for _, task := range allTasks(pipeline) {
			given = append(given, task.Params, task.Workspaces, task.When)
		}
		body := text(t, append(given, pipeline.Spec.Results))
		sameNames(t, where, "param", paramNames(pipeline.Spec.Params), references(body, paramRef))
		for _, m := range taskResult.FindAllStringSubmatch(body, -1) {
			i := slices.IndexFunc(pipeline.Spec.Tasks, func(task pipelinev1.PipelineTask) bool { return task.Name == m[1] })
			if i < 0 {
				t.Errorf("%s refers to the missing task %q", where, m[1])
				continue
			}
			spec := s.specOf(&pipeline.Spec.Tasks[i])
			if spec != nil && !slices.ContainsFunc(spec.Results, func(r pipelinev1.TaskResult) bool { return r.Name == m[2] }) {
				t.Errorf("%s: task %s has no result %q", where, m[1], m[2])
			}
		}
	}
}

// A final task that refers to a result is skipped when the result is missing:
// then the cluster would be held until the controller frees it.
func TestFinallyNeedsNoResults(t *testing.T) {
	for name, pipeline := range load(t).pipelines {
		if refs := taskResult.FindAllString(text(t, pipeline.Spec.Finally), -1); len(refs) > 0 {
			t.Errorf("Pipeline %s: finally refers to %v", name, refs)
		}
	}
}

// Each acquired slot is released in finally.
func TestEveryAcquireHasItsRelease(t *testing.T) {
	slots := func(tasks []pipelinev1.PipelineTask, name string, kind pipelinev1.TaskKind) []string {
		found := []string{}
		for _, task := range tasks {
			if ref := task.TaskRef; ref == nil || (ref.Name != name && ref.Kind != kind) {
				continue
			}
			slot := ""
			for _, p := range task.Params {
				if p.Name == "slot" {
					slot = p.Value.StringVal
				}
			}
			found = append(found, slot)
		}
		slices.Sort(found)
		return found
	}
	for name, pipeline := range load(t).pipelines {
		acquired, released := slots(pipeline.Spec.Tasks, "acquire-cluster", "ClusterLease"), slots(pipeline.Spec.Finally, "release-cluster", "ClusterRelease")
		if !slices.Equal(acquired, released) || len(slices.Compact(slices.Clone(acquired))) != len(acquired) {
			t.Errorf("Pipeline %s acquires slots %q and releases %q", name, acquired, released)
		}
	}
}

// With fewer than all three, a run that takes too long ends without finally.
func TestRunsSetAllTimeouts(t *testing.T) {
	s := load(t)
	for name, run := range s.runs {
		limits := run.Spec.Timeouts
		if limits == nil || limits.Pipeline == nil || limits.Tasks == nil || limits.Finally == nil {
			t.Errorf("PipelineRun %s does not set all three timeouts", name)
			continue
		}
		pipeline := s.pipelines[run.Spec.PipelineRef.Name]
		if pipeline == nil {
			t.Errorf("PipelineRun %s: there is no Pipeline %s", name, run.Spec.PipelineRef.Name)
			continue
		}
		checkParams(t, "PipelineRun "+name, run.Spec.Params, pipeline.Spec.Params)
	}
	if len(s.runs) == 0 {
		t.Error("no example runs")
	}
}
