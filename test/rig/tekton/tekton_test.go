package tekton

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPrepareLeavesOutAndEdits(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("resolvers/deployment.yaml", "kind: Deployment\nmetadata: {name: resolvers}\n")
	write("webhook-hpa.yaml", "kind: HorizontalPodAutoscaler\n")
	write("flags.yaml", "# only a comment\n---\nkind: ConfigMap\nmetadata: {name: feature-flags}\ndata: {set-security-context: \"false\"}\n")
	write("controller.yaml", "kind: Deployment\nmetadata: {name: tekton-pipelines-controller}\n"+
		"spec: {template: {spec: {containers: [{args: [first], readinessProbe: {initialDelaySeconds: 5}}]}}}\n")

	out, err := Prepare(dir)
	if err != nil {
		t.Fatal(err)
	}
	text := string(out)
	for _, want := range []string{`set-security-context: "true"`, "- first\n", "-kube-api-qps=100", "initialDelaySeconds: 1", "cpu: 10m"} {
		if !strings.Contains(text, want) {
			t.Errorf("missing %q in\n%s", want, text)
		}
	}
	for _, unwanted := range []string{"resolvers", "HorizontalPodAutoscaler"} {
		if strings.Contains(text, unwanted) {
			t.Errorf("unwanted %q in\n%s", unwanted, text)
		}
	}
}

func TestReferences(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("a", 64)
	text := "image: r:5000/tekton/b" + digest + "\nargs: [r:5000/tekton/a" + digest + ", r:5000/tekton/b" + digest + ", elsewhere/c" + digest + "]"
	got := References([]byte(text), "r:5000")
	if len(got) != 2 || got[0] != "r:5000/tekton/a"+digest {
		t.Errorf("got %v", got)
	}
}
