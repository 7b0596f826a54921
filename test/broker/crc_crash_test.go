package broker_test

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/test/internal/broker"
)

// crcScenarios are what the instance controller does for a crc instance of a
// bundle in several writes.
var crcScenarios = []struct {
	name           string
	prepare, begin func(w crcWorld, g *golden)
	missing        func(ctx context.Context, w crcWorld) string
}{
	{
		name:    "provision",
		prepare: func(crcWorld, *golden) {},
		begin:   func(w crcWorld, g *golden) { w.instance(g.template()) },
		missing: func(ctx context.Context, w crcWorld) string { return w.lacksReady(ctx) },
	},
	{
		name:    "destroy",
		prepare: func(w crcWorld, g *golden) { w.instance(g.template()); w.ready(alone) },
		begin: func(w crcWorld, _ *golden) {
			if err := w.instances.Delete(w.t.Context(), alone, metav1.DeleteOptions{}); err != nil {
				w.t.Fatal(err)
			}
		},
		missing: func(ctx context.Context, w crcWorld) string { return w.lacksNothing(ctx) },
	},
	{
		name:    "start again",
		prepare: func(w crcWorld, g *golden) { w.instance(g.template()); w.ready(alone) },
		begin: func(w crcWorld, _ *golden) {
			i, err := w.instances.Get(w.t.Context(), alone, metav1.GetOptions{})
			if err != nil {
				w.t.Fatal(err)
			}
			w.halt(i.DerivedName())
		},
		missing: func(ctx context.Context, w crcWorld) string { return w.lacksReady(ctx) },
	},
}

// TestCRCCrashBetweenAnyTwoWrites is TestCrashBetweenAnyTwoWrites for machines.
func TestCRCCrashBetweenAnyTwoWrites(t *testing.T) {
	t.Parallel()
	for n := range crcScenarios {
		t.Run(crcScenarios[n].name, func(t *testing.T) {
			t.Parallel()
			crashEverywhere(t, func(t *testing.T, crash *broker.Crash) int { return crashCRC(t, n, crash) })
		})
	}
}

func crashCRC(t *testing.T, scenario int, crash *broker.Crash) int {
	s := crcScenarios[scenario]
	g := newBundle(t)
	g.ready()
	w := newCRCWorld(t, nil)
	first := w.start(nil)
	s.prepare(w, g)
	first.Stop()
	s.begin(w, g)
	crashOnce(t, crash, w.start, func(ctx context.Context) string { return s.missing(ctx, w) })
	w.giveBack()
	g.stands()
	return crash.Calls()
}

// lacksReady wants one run, one machine that runs and is the recorded one, and
// no right to clone.
func (w crcWorld) lacksReady(ctx context.Context) string {
	i, err := w.instances.Get(ctx, alone, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	if lacks := conditionLacks(i.Status.Conditions, v1alpha1.ConditionReady, v1alpha1.ReasonInstanceReady, nil); lacks != "" {
		return lacks
	}
	running, err := shared.Dynamic.Resource(broker.RunningGVR).Namespace(w.namespace).Get(ctx, i.DerivedName(), metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	if running.GetUID() != i.Status.CRC.VMIUID {
		return "another machine is recorded"
	}
	runs, err := shared.Tekton.TektonV1().PipelineRuns(w.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	if len(runs.Items) != 1 {
		return fmt.Sprintf("there are %d runs, want 1", len(runs.Items))
	}
	_, err = shared.Kube.RbacV1().RoleBindings("guestcluster-bundles").Get(ctx, i.CloneBindingName(), metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return "the right to clone is left"
	}
	return ""
}

func (w crcWorld) lacksNothing(ctx context.Context) string {
	_, err := w.instances.Get(ctx, alone, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return "the instance still exists"
	}
	if left := w.children(ctx, ""); left != "" {
		return left
	}
	return w.guestsLeft(ctx, "")
}
