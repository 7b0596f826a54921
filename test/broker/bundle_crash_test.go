package broker_test

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/test/internal/broker"
)

// bundleScenarios are what the bundle controllers do in several writes.
var bundleScenarios = []struct {
	name           string
	prepare, begin func(w *bundleWorld)
	missing        func(ctx context.Context, w *bundleWorld) string
}{
	{
		name:    "prepare",
		prepare: func(*bundleWorld) {},
		begin:   func(w *bundleWorld) { w.create(nil) },
		missing: func(ctx context.Context, w *bundleWorld) string { return w.lacksReady(ctx) },
	},
	{
		name:    "delete",
		prepare: func(w *bundleWorld) { w.create(nil); w.ready() },
		begin:   func(w *bundleWorld) { w.delete() },
		missing: func(ctx context.Context, w *bundleWorld) string { return w.gone(ctx) },
	},
}

// TestBundleCrashBetweenAnyTwoWrites is TestCrashBetweenAnyTwoWrites for bundles.
func TestBundleCrashBetweenAnyTwoWrites(t *testing.T) {
	t.Parallel()
	for i := range bundleScenarios {
		t.Run(bundleScenarios[i].name, func(t *testing.T) {
			t.Parallel()
			crashEverywhere(t, func(t *testing.T, crash *broker.Crash) int { return crashBundle(t, i, crash) })
		})
	}
}

func crashBundle(t *testing.T, scenario int, crash *broker.Crash) int {
	s := bundleScenarios[scenario]
	w := newBundleWorld(t, nil)
	first := w.start(nil)
	s.prepare(w)
	first.Stop()
	s.begin(w)
	crashOnce(t, crash, w.start, func(ctx context.Context) string { return s.missing(ctx, w) })
	return crash.Calls()
}

func (w *bundleWorld) lacksReady(ctx context.Context) string {
	b, err := w.bundles.Get(ctx, w.name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	if b.Status.Phase != v1alpha1.BundleReady {
		return fmt.Sprintf("phase %q: %s", b.Status.Phase, b.ReadyMessage())
	}
	if b.Status.Run.Attempt != 0 || len(w.runs()) != 1 {
		return fmt.Sprintf("attempt %d, %d runs: one preparation is enough", b.Status.Run.Attempt, len(w.runs()))
	}
	w.wantStatus(b)
	return ""
}
