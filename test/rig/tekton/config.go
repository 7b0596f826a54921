package tekton

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// unused are the files and folders below config/ that the rig leaves out.
var unused = []string{"resolvers", "events.yaml", "webhook-hpa.yaml", "config-leader-election-events.yaml"}

// settings are the values that the rig changes, by ConfigMap.
var settings = map[string]map[string]string{
	"feature-flags": {
		"coschedule":              "disabled",
		"set-security-context":    "true",
		"await-sidecar-readiness": "false",
		"running-in-environment-with-injected-sidecars": "false",
	},
	"config-leader-election-controller": lease,
	"config-leader-election-webhook":    lease,
}

// lease is short because a restart with kept state waits for the old one.
var lease = map[string]string{"lease-duration": "15s", "renew-deadline": "10s", "retry-period": "2s"}

// arguments are added to the container of a Deployment.
var arguments = map[string][]string{
	"tekton-pipelines-controller": {"-kube-api-qps=100", "-kube-api-burst=100"},
	"tekton-pipelines-webhook":    {"-kube-api-qps=100", "-kube-api-burst=100"},
}

// Prepare reads Tekton's configuration folder and returns one YAML stream,
// still with ko references.
func Prepare(config string) ([]byte, error) {
	var out []byte
	err := filepath.WalkDir(config, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if slices.Contains(unused, entry.Name()) {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".yaml" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, document := range strings.Split(string(text), "\n---") {
			edited, err := edit(document)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			out = append(out, edited...)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("prepare Tekton's configuration: %w", err)
	}
	return out, nil
}

func edit(document string) ([]byte, error) {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
		return nil, err
	}
	if len(object.Object) == 0 {
		return nil, nil
	}
	for key, value := range settings[object.GetName()] {
		if err := unstructured.SetNestedField(object.Object, value, "data", key); err != nil {
			return nil, err
		}
	}
	if object.GetKind() == "Deployment" {
		if err := editDeployment(object); err != nil {
			return nil, err
		}
	}
	text, err := yaml.Marshal(object.Object)
	return append([]byte("---\n"), text...), err
}

func editDeployment(object *unstructured.Unstructured) error {
	path := []string{"spec", "template", "spec", "containers"}
	containers, found, err := unstructured.NestedSlice(object.Object, path...)
	if err != nil || !found || len(containers) != 1 {
		return errors.Join(err, fmt.Errorf("deployment %s: want one container, got %d", object.GetName(), len(containers)))
	}
	container := containers[0].(map[string]any)
	args, _, err := unstructured.NestedStringSlice(container, "args")
	if err != nil {
		return err
	}
	args = append(args, arguments[object.GetName()]...)
	probe := map[string]any{"initialDelaySeconds": int64(1), "periodSeconds": int64(1)}
	for field, value := range probe {
		if err := unstructured.SetNestedField(container, value, "readinessProbe", field); err != nil {
			return err
		}
	}
	container["resources"] = map[string]any{"requests": map[string]any{"cpu": "10m", "memory": "50Mi"}}
	if err := unstructured.SetNestedStringSlice(container, args, "args"); err != nil {
		return err
	}
	return unstructured.SetNestedSlice(object.Object, containers, path...)
}
