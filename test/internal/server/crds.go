package server

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// tektonModule holds the CRDs of the Tekton that go.mod names.
const tektonModule = "github.com/tektoncd/pipeline"

const established = time.Minute

// Root is the directory of the repository.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	if filepath.IsAbs(file) {
		return filepath.Join(filepath.Dir(file), "..", "..", "..")
	}
	// -trimpath leaves no path; tests run in their package's directory.
	dir, err := os.Getwd()
	if err != nil {
		return "."
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	return "."
}

func (s *Server) installCRDs(ctx context.Context, withTekton bool) error {
	directories := []string{filepath.Join(Root(), "config", "300-crds")}
	if withTekton {
		dir, err := moduleDir(ctx, tektonModule)
		if err != nil {
			return err
		}
		directories = append(directories, filepath.Join(dir, "config", "300-crds"))
	}
	var names []string
	for _, dir := range directories {
		added, err := s.applyCRDs(ctx, dir)
		if err != nil {
			return err
		}
		names = append(names, added...)
	}
	for _, name := range names {
		if err := s.waitEstablished(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func moduleDir(ctx context.Context, module string) (string, error) {
	command := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
	command.Dir = Root()
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("find module %s: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}

func (s *Server) applyCRDs(ctx context.Context, dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no YAML in %s", dir)
	}
	var names []string
	for _, file := range files {
		objects, err := ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, crd := range objects {
			if crd.GetKind() != "CustomResourceDefinition" {
				continue
			}
			withoutConversion(crd)
			if _, err := s.Dynamic.Resource(crdResource).Create(ctx, crd, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			names = append(names, crd.GetName())
		}
	}
	return names, nil
}

// withoutConversion drops Tekton's conversion webhook: nobody answers it here.
func withoutConversion(crd *unstructured.Unstructured) {
	unstructured.RemoveNestedField(crd.Object, "spec", "conversion")
}

func (s *Server) waitEstablished(ctx context.Context, name string) error {
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, established, true, func(ctx context.Context) (bool, error) {
		crd, err := s.Dynamic.Resource(crdResource).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
		for _, c := range conditions {
			if m, ok := c.(map[string]any); ok && m["type"] == "Established" && m["status"] == "True" {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("wait for CRD %s: %w", name, err)
	}
	return nil
}

// ReadFile reads all objects of a YAML file.
func ReadFile(file string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, document := range strings.Split(string(text), "\n---\n") {
		object, err := Parse(document)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if object.Object != nil {
			objects = append(objects, object)
		}
	}
	return objects, nil
}

// Apply makes an object of a kind whose resource is its name in the plural.
func (s *Server) Apply(ctx context.Context, object *unstructured.Unstructured) error {
	gvr, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	var client dynamic.ResourceInterface = s.Dynamic.Resource(gvr)
	if object.GetNamespace() != "" {
		client = s.Dynamic.Resource(gvr).Namespace(object.GetNamespace())
	}
	_, err := client.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: "test", Force: true})
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	if gvr == crdResource {
		return s.waitEstablished(ctx, object.GetName())
	}
	return nil
}

// Parse reads one object written in YAML.
func Parse(text string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, err
	}
	if string(raw) == "null" {
		return object, nil
	}
	// Numbers stay what they are: 14 is an int64, not a float64.
	return object, object.UnmarshalJSON(raw)
}
