package tasks

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"knative.dev/pkg/apis"
	strict "sigs.k8s.io/yaml"
)

// suite is every Tekton object that the repository ships, by name.
type suite struct {
	tasks     map[string]*pipelinev1.Task
	pipelines map[string]*pipelinev1.Pipeline
	runs      map[string]*pipelinev1.PipelineRun
	docs      []document
}

// document is one YAML document and the file it stands in.
type document struct {
	file, kind, name, namespace string
	raw                         []byte
	alone                       bool
}

// places are the directories with YAML for Tekton.
var places = []string{".", "lessee", "../pipelines", "../examples", "../examples/custom-topology"}

func load(t *testing.T) *suite {
	t.Helper()
	s := &suite{map[string]*pipelinev1.Task{}, map[string]*pipelinev1.Pipeline{}, map[string]*pipelinev1.PipelineRun{}, nil}
	for _, place := range places {
		files, err := filepath.Glob(filepath.Join(place, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			s.read(t, file)
		}
	}
	return s
}

func (s *suite) read(t *testing.T, file string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	reader, first := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(content))), len(s.docs)
	buffer := make([]byte, len(content)+1)
	for {
		n, err := reader.Read(buffer)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		s.add(t, file, slices.Clone(buffer[:n]))
	}
	for i := range s.docs[first:] {
		s.docs[first+i].alone = len(s.docs)-first == 1
	}
}

func (s *suite) add(t *testing.T, file string, raw []byte) {
	t.Helper()
	var object struct {
		Kind     string
		Metadata struct{ Name, Namespace string }
	}
	if err := strict.Unmarshal(raw, &object); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	s.docs = append(s.docs, document{file: file, kind: object.Kind, name: object.Metadata.Name, namespace: object.Metadata.Namespace, raw: raw})
	switch object.Kind {
	case "Task":
		s.tasks[object.Metadata.Name] = decode(t, file, raw, &pipelinev1.Task{})
	case "Pipeline":
		s.pipelines[object.Metadata.Name] = decode(t, file, raw, &pipelinev1.Pipeline{})
	case "PipelineRun":
		s.runs[object.Metadata.Name] = decode(t, file, raw, &pipelinev1.PipelineRun{})
	}
}

// tekton is what Tekton's webhook does with an object.
type tekton interface {
	SetDefaults(context.Context)
	Validate(context.Context) *apis.FieldError
}

// decode refuses unknown fields and what Tekton's webhook would refuse.
func decode[T tekton](t *testing.T, file string, raw []byte, into T) T {
	t.Helper()
	if err := strict.UnmarshalStrict(raw, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	checked := into
	checked.SetDefaults(context.Background())
	if err := checked.Validate(context.Background()); err != nil {
		t.Errorf("%s: Tekton refuses it: %v", file, err)
	}
	return into
}

// taskSpecs are all Task specs, those inside Pipelines too, by a name for messages.
func (s *suite) taskSpecs() map[string]*pipelinev1.TaskSpec {
	specs := map[string]*pipelinev1.TaskSpec{}
	for name, task := range s.tasks {
		specs["Task "+name] = &task.Spec
	}
	for name, pipeline := range s.pipelines {
		for _, task := range allTasks(pipeline) {
			if task.TaskSpec != nil {
				specs["Pipeline "+name+", task "+task.Name] = &task.TaskSpec.TaskSpec
			}
		}
	}
	return specs
}

func allTasks(pipeline *pipelinev1.Pipeline) []pipelinev1.PipelineTask {
	return slices.Concat(pipeline.Spec.Tasks, pipeline.Spec.Finally)
}

// text is a spec without what only declares names, to look for references in.
func text(t *testing.T, v any) string {
	t.Helper()
	raw, err := strict.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// references returns the names that a pattern with one group finds.
func references(in string, pattern *regexp.Regexp) []string {
	var names []string
	for _, m := range pattern.FindAllStringSubmatch(in, -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// sameNames reports declared names that nothing uses and used ones that nothing declares.
func sameNames(t *testing.T, where, what string, declared, used []string) {
	t.Helper()
	for _, name := range used {
		if !slices.Contains(declared, name) {
			t.Errorf("%s uses the undeclared %s %q", where, what, name)
		}
	}
	for _, name := range declared {
		if !slices.Contains(used, name) {
			t.Errorf("%s declares the %s %q and never uses it", where, what, name)
		}
	}
}

func paramNames(params pipelinev1.ParamSpecs) []string {
	var names []string
	for _, p := range params {
		names = append(names, p.Name)
	}
	return names
}

func hasPrefix(list []string, prefix string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.HasPrefix(s, prefix) })
}
