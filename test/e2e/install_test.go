//go:build e2e

package e2e

import (
	"strings"
	"testing"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
)

// TestEveryImageIsPinnedByDigest: ko resolved and pinned all that was installed.
func TestEveryImageIsPinnedByDigest(t *testing.T) {
	tasks, err := rig.Tekton.TektonV1().Tasks(guestcluster.SystemNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(tasks.Items) == 0 {
		t.Fatal("no Task is installed")
	}
	for _, task := range tasks.Items {
		for _, step := range task.Spec.Steps {
			checkPinned(t, task.Name, step)
		}
	}
	resolved, err := rig.Exec(t.Context(), "", "ko", "resolve", "-R", "-f", "config/", "-f", "tasks/", "-f", "pipelines/", "-f", "examples/")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(resolved, "ko://") {
		t.Error("ko resolve left a ko:// reference")
	}
}

func checkPinned(t *testing.T, task string, step pipelinev1.Step) {
	t.Helper()
	if !strings.Contains(step.Image, "@sha256:") {
		t.Errorf("image of step %s of Task %s is not pinned: %s", step.Name, task, step.Image)
	}
}

// TestControllerRunsRestricted: its pod passes Pod Security restricted, and it
// cannot read Secrets outside the namespaces that opted in.
func TestControllerRunsRestricted(t *testing.T) {
	ns, err := rig.Kube.CoreV1().Namespaces().Get(t.Context(), guestcluster.SystemNamespace, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if level := ns.Labels["pod-security.kubernetes.io/enforce"]; level != "restricted" {
		t.Errorf("Pod Security of %s is %q", ns.Name, level)
	}
	pods, err := rig.Kube.CoreV1().Pods(ns.Name).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=guestcluster-controller"})
	if err != nil || len(pods.Items) == 0 || pods.Items[0].Status.Phase != corev1.PodRunning {
		t.Fatalf("controller pods: %+v, %v", pods, err)
	}
	for namespace, want := range map[string]string{"kube-system": "no", poolNamespace: "yes"} {
		out, err := rig.Exec(t.Context(), "", "bash", "-c", "kubectl auth can-i get secrets -n "+namespace+
			" --as=system:serviceaccount:guestcluster-system:guestcluster-controller || true")
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(out); got != want {
			t.Errorf("controller may get Secrets in %s: %s, want %s", namespace, got, want)
		}
	}
}

// TestMetricsAreServed: OpenTelemetry metrics in Prometheus form on port 9090.
func TestMetricsAreServed(t *testing.T) {
	text, err := rig.Kube.CoreV1().Services(guestcluster.SystemNamespace).ProxyGet("http", "guestcluster-controller", "9090", "/metrics", nil).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "kn_workqueue") && !strings.Contains(string(text), "workqueue") {
		t.Errorf("no workqueue metric in:\n%.2000s", text)
	}
}
