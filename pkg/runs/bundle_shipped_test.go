package runs

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	"sigs.k8s.io/yaml"
)

// The Pipeline that ships keeps the contract, but for images that ko has not
// built yet.
func TestShippedPrepareBundleKeepsTheContract(t *testing.T) {
	pipeline, root := &pipelinev1.Pipeline{}, filepath.Join("..", "..")
	read(t, filepath.Join(root, "pipelines", PrepareBundle+".yaml"), pipeline)
	tasks := map[string]*pipelinev1.Task{}
	for _, task := range pipeline.Spec.Tasks {
		found := &pipelinev1.Task{}
		read(t, filepath.Join(root, "tasks", task.TaskRef.Name+".yaml"), found)
		if found.Namespace != pipeline.Namespace {
			t.Errorf("Task %s is in namespace %q, its Pipeline in %q", found.Name, found.Namespace, pipeline.Namespace)
		}
		tasks[found.Name] = found
	}
	if _, err := BuildBundle(BundleInput{Bundle: theBundle(), Pipeline: pipeline, Tasks: tasks}); err != nil {
		t.Error(err)
	}
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.UnmarshalStrict(bytes.ReplaceAll(text, []byte("ko://"), nil), into)
	}
	if err != nil {
		t.Fatal(err)
	}
}
