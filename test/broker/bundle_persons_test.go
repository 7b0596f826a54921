package broker_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// TestPersonsRuns are not parallel: every set of bundle controllers sees them.
func TestPersonsRuns(t *testing.T) {
	t.Run("a run makes its bundle", func(t *testing.T) {
		b := newBundleWorld(t, nil)
		b.start(nil)
		run := b.personsRun(map[string]string{"storage-class": "fast", "golden-volume-size": "40Gi"})
		bundle := b.ready()
		b.wantStatus(bundle)
		if bundle.Status.Run.UID != run.UID || bundle.Spec.StorageClassName != "fast" || bundle.Spec.GoldenVolumeSize.String() != "40Gi" {
			t.Errorf("spec %+v, run %v", bundle.Spec, bundle.Status.Run)
		}
		b.noOwnRun()
	})
	t.Run("a bundle that starts finds the run", func(t *testing.T) {
		wait, open := gate(t)
		b := newBundleWorld(t, func(string) prepareAct { return prepareAct{Wait: wait} })
		run := b.personsRun(map[string]string{})
		b.create(nil)
		b.start(nil)
		b.phase(v1alpha1.BundlePreparing, v1alpha1.ReasonBundlePreparing, run.Name, "is running")
		open()
		b.ready()
		b.noOwnRun()
	})
	t.Run("a run that succeeded while no controller ran", func(t *testing.T) {
		b := newBundleWorld(t, nil)
		b.personsRun(map[string]string{})
		eventually(t, "the run to end", func(context.Context) string {
			if runs := b.runs(); len(runs) != 1 || !runs[0].IsDone() {
				return "it has not ended"
			}
			return ""
		})
		b.start(nil)
		b.ready()
	})
	t.Run("a run that fails", func(t *testing.T) {
		wait, open := gate(t)
		b := newBundleWorld(t, func(string) prepareAct {
			return prepareAct{Wait: wait, Fail: true, ExitCode: 11, Message: "no route to mirror"}
		})
		b.start(nil)
		run := b.personsRun(map[string]string{})
		b.phase(v1alpha1.BundlePreparing, v1alpha1.ReasonBundlePreparing, run.Name)
		open()
		b.phase(v1alpha1.BundleFailed, v1alpha1.ReasonBundleFailed, "no route to mirror")
		b.noOwnRun()
		b.delete()
		eventually(t, "the bundle and the run to go", func(ctx context.Context) string {
			if runs := b.runs(); len(runs) > 0 {
				return "run " + runs[0].Name
			}
			return b.gone(ctx)
		})
	})
	t.Run("a second run for a Ready bundle", func(t *testing.T) {
		wait, _ := gate(t)
		acts := func(attempt string) prepareAct {
			if attempt == "" {
				return prepareAct{Wait: wait}
			}
			return prepareAct{}
		}
		b := newBundleWorld(t, acts)
		b.start(nil)
		b.create(nil)
		before := b.ready()
		run := b.personsRun(map[string]string{})
		time.Sleep(sincePause)
		if after := b.ready(); after.ResourceVersion != before.ResourceVersion {
			t.Errorf("the bundle changed: %+v", after.Status)
		}
		_ = shared.Tekton.TektonV1().PipelineRuns(run.Namespace).Delete(t.Context(), run.Name, metav1.DeleteOptions{})
	})
	t.Run("a run for no version at all", func(t *testing.T) {
		b := newBundleWorld(t, nil)
		b.version = "latest"
		b.start(nil)
		run := b.personsRun(map[string]string{})
		time.Sleep(sincePause)
		if _, err := b.bundles.Get(t.Context(), "crc-latest-amd64", metav1.GetOptions{}); err == nil {
			t.Error("it made a bundle")
		}
		_ = shared.Tekton.TektonV1().PipelineRuns(run.Namespace).Delete(t.Context(), run.Name, metav1.DeleteOptions{})
	})
}

func (w *bundleWorld) noOwnRun() {
	w.t.Helper()
	for _, run := range w.runs() {
		if owner := metav1.GetControllerOf(&run); owner != nil {
			w.t.Errorf("run %s belongs to %s", run.Name, owner.Name)
		}
	}
}
