package standins

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func route(name, host, termination string, age time.Duration) *unstructured.Unstructured {
	r := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"host": host, "tls": map[string]any{"termination": termination},
	}}}
	r.SetName(name)
	r.SetNamespace("ns")
	r.SetCreationTimestamp(metav1.NewTime(time.Unix(1_000_000, 0).Add(-age)))
	return r
}

func TestDecide(t *testing.T) {
	got := map[string]admission{}
	for _, a := range decide([]*unstructured.Unstructured{
		route("late", "same.test", "passthrough", 0),
		route("early", "same.test", "passthrough", time.Hour),
		route("nameless", "", "passthrough", 0),
		route("edge", "edge.test", "edge", 0),
	}, "apps.test") {
		got[a.route.GetName()] = a
	}
	want := map[string]struct{ host, reason string }{
		"early":    {"same.test", ""},
		"late":     {"same.test", "HostAlreadyClaimed"},
		"nameless": {"nameless-ns.apps.test", ""},
		"edge":     {"edge.test", "UnsupportedTermination"},
	}
	for name, w := range want {
		if a := got[name]; a.host != w.host || a.reason != w.reason {
			t.Errorf("%s: got host %q reason %q, want %q %q", name, a.host, a.reason, w.host, w.reason)
		}
	}
}

func TestSettledAfterStatusIsWritten(t *testing.T) {
	a := decide([]*unstructured.Unstructured{route("r", "h.test", "passthrough", 0)}, "apps.test")[0]
	if a.settled() {
		t.Error("settled without status")
	}
	entry := a.ingress("apps.test", time.Unix(0, 0))
	if err := unstructured.SetNestedSlice(a.route.Object, []any{entry}, "status", "ingress"); err != nil {
		t.Fatal(err)
	}
	if !a.settled() {
		t.Error("not settled with the status it asks for")
	}
}
