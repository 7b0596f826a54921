package broker_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"knative.dev/pkg/injection"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/plan"
	"opdev.io/guestcluster/pkg/reconciler/sweep"
	"opdev.io/guestcluster/test/internal/broker"
)

// Sweeps look into guestcluster-bundles, which all tests share: these run alone.

// TestSweepDeletesWhatAnInstanceLeft quotes invariant 8, with no more rights
// than config/ gives.
func TestSweepDeletesWhatAnInstanceLeft(t *testing.T) {
	w := newSweepWorld(t)
	config := w.rights()
	i := w.born("slot")
	orphans := append(w.children(i), w.clone(i))
	s := w.sweeper(config, false, nil)
	w.sweep(s)
	w.want("the instance is there", true, orphans...)
	if n := total(s, "owner"); n != 0 {
		t.Errorf("%d orphans of an instance that is there", n)
	}

	w.force(i)
	again := w.born("slot") // the slot's next instance does not save what the last one left
	its := append(w.children(again), w.clone(again))
	foreign := w.make(w.parse(leftKinds[2], "foreign"))
	for range 2 {
		w.sweep(s)
	}
	w.want("within the hour", true, orphans...)
	if n := total(s, "owner"); n != len(orphans) {
		t.Errorf("%d orphans are counted, want %d: %v", n, len(orphans), s.Counts())
	}
	w.wantEvents(plan.OrphanFound, 1, orphans...)

	w.clock.SetTime(time.Now().Add(plan.SweepAge + time.Minute))
	w.sweep(s)
	w.want("after the hour", false, orphans...)
	w.want("another instance's, and a foreign one", true, append(its, foreign)...)
	w.wantEvents(plan.OrphanFound, 1, orphans...)
	w.wantEvents(plan.OrphanDeleted, 1, orphans...)
	if n := total(s, "owner"); n != 0 {
		t.Errorf("%d orphans are counted after they are gone", n)
	}
	if len(w.said) > 0 {
		t.Errorf("the shipped rights do not let it see: %v", w.said)
	}
}

func TestSweepInADryRunOnlyReports(t *testing.T) {
	w := newSweepWorld(t)
	i := w.born("slot")
	orphans := append(w.children(i), w.clone(i))
	w.force(i)
	w.clock.SetTime(time.Now().Add(2 * plan.SweepAge))
	s := w.sweeper(w.config, true, nil)
	w.sweep(s)
	w.want("in a dry run", true, orphans...)
	w.wantEvents(plan.OrphanFound, 1, orphans...)
	w.wantEvents(plan.OrphanDeleted, 0, orphans...)
	if n := total(s, "owner"); n != len(orphans) {
		t.Errorf("%d orphans, want %d", n, len(orphans))
	}
}

func TestSweepOnlyReportsWhatIsNotCertainlyOurs(t *testing.T) {
	w := newSweepWorld(t)
	i := w.born("slot")
	owner := i.ChildMeta("")
	labelled, shared, held := w.parse(leftKinds[2], "labelled"), w.parse(leftKinds[2], "shared"), w.parse(leftKinds[2], "held")
	labelled.SetLabels(owner.Labels)
	parent := w.make(w.parse(leftKinds[2], "parent"))
	shared.SetOwnerReferences(append(owner.OwnerReferences, metav1.OwnerReference{
		APIVersion: "v1", Kind: "ConfigMap", Name: "parent", UID: parent.object.GetUID()}))
	held.SetOwnerReferences(owner.OwnerReferences)
	held.SetFinalizers([]string{"broker.test/held"})
	kept := []left{w.make(labelled), w.make(shared)}
	going := w.make(held)
	w.remove(going)
	t.Cleanup(func() { w.unhold(going) })
	w.force(i)
	w.clock.SetTime(time.Now().Add(2 * plan.SweepAge))
	s := w.sweeper(w.config, false, nil)
	w.sweep(s)
	w.want("label-only and shared objects", true, kept...)
	w.wantEvents(plan.OrphanFound, 1, append(kept, going)...)
	w.wantEvents(plan.OrphanDeleted, 0, going)
	if label, owner := total(s, "label"), total(s, "owner"); label != 1 || owner != 2 {
		t.Errorf("%d by label and %d by owner: %v", label, owner, s.Counts())
	}
}

func TestSweepLeavesSecretsToGarbageCollection(t *testing.T) {
	w := newSweepWorld(t)
	i := w.born("slot")
	secret := w.parse(`{apiVersion: v1, kind: Secret}`, i.KubeconfigSecretName())
	secret.SetOwnerReferences(i.ChildMeta("").OwnerReferences)
	kept := w.make(secret)
	w.force(i)
	w.clock.SetTime(time.Now().Add(2 * plan.SweepAge))
	w.sweep(w.sweeper(w.config, false, nil))
	w.want("a Secret", true, kept)
	w.wantEvents(plan.OrphanFound, 0, kept)
}

// failing answers reads of one instance with an error.
type failing struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (f failing) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/clusterinstances/slot") {
		return &http.Response{StatusCode: http.StatusInternalServerError, Request: r, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("down"))}, nil
	}
	return f.next.RoundTrip(r)
}

func TestSweepKeepsWhatItCannotDecide(t *testing.T) {
	w := newSweepWorld(t)
	i := w.born("slot")
	orphans := append(w.children(i), w.clone(i))
	w.force(i)
	w.clock.SetTime(time.Now().Add(2 * plan.SweepAge))
	s := w.sweeper(w.config, false, func(next http.RoundTripper) http.RoundTripper { return failing{next} })
	if err := s.Sweep(t.Context()); err == nil || !strings.Contains(err.Error(), "read instance") {
		t.Errorf("the sweep says %v", err)
	}
	w.want("an instance that cannot be read", true, orphans...)
	w.wantEvents(plan.OrphanFound, 0, orphans...)
}

// TestSweepSaysOnceWhatItCannotSee: a namespace may opt in before its admin has
// bound the role, and loses its rights early when it goes.
func TestSweepSaysOnceWhatItCannotSee(t *testing.T) {
	w := newSweepWorld(t)
	config := shippedRights(t, "201-controller-rbac.yaml", "202-namespace-roles.yaml", "206-bundle-controller-rbac.yaml")
	held := w.parse(leftKinds[2], "held")
	held.SetFinalizers([]string{"broker.test/held"})
	going := w.make(held)
	t.Cleanup(func() { w.unhold(going) })
	s := w.sweeper(config, false, nil)
	w.sweep(s)
	w.sweep(s)
	if len(w.said) != 1 || !strings.Contains(w.said[0], w.namespace) || !strings.Contains(w.said[0], "persistentvolumeclaims") ||
		strings.Contains(w.said[0], "hypershift") || strings.Contains(w.said[0], "virtualmachines") {
		t.Errorf("said %q", w.said)
	}
	w.said = nil
	if err := shared.Kube.CoreV1().Namespaces().Delete(t.Context(), w.namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the cache to see the namespace go", func(context.Context) string {
		ns, err := s.Namespaces.Get(w.namespace)
		if err != nil || ns.DeletionTimestamp == nil {
			return fmt.Sprintf("error %v", err)
		}
		return ""
	})
	w.sweep(s)
	if len(w.said) > 0 {
		t.Errorf("complains of a namespace that goes: %q", w.said)
	}
}

// TestSweepRunsWithTheController is the wiring: the leader sweeps when it
// starts, in all namespaces that opted in and no others.
func TestSweepRunsWithTheController(t *testing.T) {
	w, out := newSweepWorld(t), newSweepWorld(t)
	i, other := w.born("slot"), out.born("slot")
	orphans := append(w.children(i), w.clone(i))
	kept := out.children(other)
	out.labelNamespace(guestcluster.EnabledLabel, "false")
	w.force(i)
	out.force(other)
	clock := clocktesting.NewFakeClock(time.Now().Add(2 * plan.SweepAge))
	broker.StartSet(t, w.rights(), broker.SetOptions{Clock: clock, Controllers: []injection.ControllerConstructor{sweep.NewController}})
	w.eventually("the orphans to go", func(context.Context) string {
		for _, l := range orphans {
			if w.stands(l) {
				return l.object.GetKind() + " stands"
			}
		}
		return ""
	})
	out.want("a namespace that opted out", true, kept...)
}

func (w *sweepWorld) sweep(s *sweep.Sweeper) {
	w.t.Helper()
	if err := s.Sweep(w.t.Context()); err != nil {
		w.t.Errorf("sweep: %v", err)
	}
}

func (w *sweepWorld) remove(l left) {
	w.t.Helper()
	if err := shared.Dynamic.Resource(l.gvr).Namespace(l.object.GetNamespace()).Delete(w.t.Context(), l.object.GetName(), metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *sweepWorld) unhold(l left) {
	_, _ = shared.Dynamic.Resource(l.gvr).Namespace(l.object.GetNamespace()).Patch(context.Background(), l.object.GetName(),
		types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
}
