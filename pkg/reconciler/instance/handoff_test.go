package instance

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/reconciler/instance/resources"
	"opdev.io/guestcluster/pkg/runs"
)

const goodKubeconfig = `{apiVersion: v1, kind: Config, current-context: c,
  contexts: [{name: c, context: {cluster: c, user: u}}],
  clusters: [{name: c, cluster: {server: "https://gc.apps.example.org:443"}}],
  users: [{name: u, user: {token: t}}]}`

func provisioning() *v1alpha1.ClusterInstance {
	i := &v1alpha1.ClusterInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: "p-0", UID: "i1"}}
	i.Status.APIEndpoint = "https://gc.apps.example.org"
	i.Status.Run = &v1alpha1.RunStatus{Name: "run", UID: "r1"}
	return i
}

func filled(i *v1alpha1.ClusterInstance) *corev1.Secret {
	secret := resources.KubeconfigSecret(i)
	secret.Data = map[string][]byte{
		guestcluster.KubeconfigKey: []byte(goodKubeconfig), guestcluster.OCPVersionKey: []byte("4.19.3"), guestcluster.RunUIDKey: []byte("r1"),
	}
	return secret
}

func TestHandoffIsRefused(t *testing.T) {
	set := func(key, value string) func(*corev1.Secret) {
		return func(s *corev1.Secret) { s.Data[key] = []byte(value) }
	}
	rows := map[string]struct {
		change  func(*corev1.Secret)
		results map[string]string
		want    string
	}{
		"never, when all fits":  {func(*corev1.Secret) {}, map[string]string{runs.ResultAPIEndpoint: "https://gc.apps.example.org:443", runs.ResultOCPVersion: "4.19.3"}, ""},
		"never for a lost run":  {func(*corev1.Secret) {}, nil, ""},
		"of another run":        {set(guestcluster.RunUIDKey, "r0"), nil, "written for another run"},
		"of no run":             {set(guestcluster.RunUIDKey, ""), nil, "not filled by the run"},
		"of another instance":   {func(s *corev1.Secret) { s.OwnerReferences[0].UID = "i0" }, nil, "does not belong"},
		"without a kubeconfig":  {set(guestcluster.KubeconfigKey, ""), nil, "empty"},
		"for another host":      {set(guestcluster.KubeconfigKey, strings.Replace(goodKubeconfig, "gc.apps", "evil", 1)), nil, "assigned endpoint"},
		"with another endpoint": {func(*corev1.Secret) {}, map[string]string{runs.ResultAPIEndpoint: "https://other"}, "the assigned endpoint is"},
		"with another version":  {func(*corev1.Secret) {}, map[string]string{runs.ResultOCPVersion: "4.18.0"}, "result ocp-version"},
		"without any version":   {set(guestcluster.OCPVersionKey, ""), nil, "has no key ocpVersion"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			i := provisioning()
			secret := filled(i)
			row.change(secret)
			got := handoffProblem(i, secret)
			if got == "" {
				got = resultsProblem(i, secret, row.results)
			}
			if (row.want == "") != (got == "") || !strings.Contains(got, row.want) {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
	if handoffProblem(provisioning(), nil) == "" {
		t.Error("a Secret that is gone is accepted")
	}
}
