package broker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// told sums up the Events of the namespace by object, reason and text: what is
// told of one transition must stand once.
func (w *world) told() map[string]int32 {
	w.t.Helper()
	list, err := shared.Kube.CoreV1().Events(w.namespace).List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	found := map[string]int32{}
	for _, e := range list.Items {
		o := e.InvolvedObject
		found[fmt.Sprintf("%s %s (%s): %s: %s", o.Kind, o.Name, o.UID, e.Reason, e.Message)] += max(e.Count, 1)
	}
	return found
}

// awaitTold waits until an object has an Event of a reason.
func (w *world) awaitTold(kind, name, reason string) {
	w.t.Helper()
	w.eventually("Event "+reason+" of "+name, func(ctx context.Context) string {
		list, err := shared.Kube.CoreV1().Events(w.namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.kind=" + kind + ",involvedObject.name=" + name + ",reason=" + reason})
		if err != nil {
			return err.Error()
		}
		if len(list.Items) == 0 {
			return "there is none"
		}
		return ""
	})
}

// TestEventsTellEachTransitionOnce: neither a second pass nor another
// controller process, which looks at everything anew, tells again what stands.
func TestEventsTellEachTransitionOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	first := w.start(nil)
	w.pool(size(2, 1))
	w.available(1)
	w.lease("job", nil)
	_, held := w.bound("job")
	w.available(1) // the spare's replacement: from here on nothing changes
	for _, want := range [][3]string{
		{"ClusterPool", poolName, "InstanceCreated"}, {"ClusterInstance", held.Name, string(v1alpha1.ReasonInstanceReady)},
		{"ClusterLease", "job", string(v1alpha1.ReasonInstanceBound)}, {"ClusterLease", "job", "Claimed"},
	} {
		w.awaitTold(want[0], want[1], want[2])
	}
	first.Stop()
	before := w.told()
	w.start(nil)
	t.Cleanup(w.giveBack)
	w.release("job")
	w.phase("job", v1alpha1.LeaseReleased)
	w.destroyed(held)
	w.awaitTold("ClusterLease", "job", string(v1alpha1.ReasonReleased))
	after := w.told()
	for what, n := range after {
		// The framework tells in the same words that a finalizer came and went.
		if n != 1 && !(n == 2 && strings.Contains(what, ": FinalizerUpdate: ")) {
			t.Errorf("told %d times: %s", n, what)
		}
		delete(before, what)
	}
	for what := range before {
		t.Errorf("an Event is gone: %s", what)
	}
	if len(after) < 10 {
		t.Errorf("a whole life has only %d Events: %v", len(after), after)
	}
}
