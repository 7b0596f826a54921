package broker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/test/internal/broker"
)

func TestPoolWaitsForItsBundle(t *testing.T) {
	t.Parallel()
	wait, open := gate(t)
	b := newBundleWorld(t, func(string) prepareAct { return prepareAct{Wait: wait} })
	b.start(nil)
	w := running(t, nil)
	w.pool(b.pool)
	w.poolCondition(v1alpha1.ConditionProvisioningAllowed, v1alpha1.ReasonBundleNotReady, b.name, "is being prepared", "is running")
	w.lease("job", nil)
	w.reason("job", v1alpha1.ReasonPoolNotProvisioning, b.name+" is being prepared")
	if list, err := w.instances.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("the pool has made %d instances, error %v", len(list.Items), err)
	}
	open()
	bundle := b.ready()
	w.poolCondition(v1alpha1.ConditionProvisioningAllowed, v1alpha1.ReasonNamespaceEnabled)
	w.slot(0)
	b.wantStatus(bundle)
	if _, err := b.bundles.Get(t.Context(), b.name, metav1.GetOptions{}); err != nil || len(bundle.OwnerReferences) > 0 {
		t.Errorf("owners %v, error %v", bundle.OwnerReferences, err)
	}
}

// wantStatus compares what a Ready bundle tells with what the run has left.
func (w *bundleWorld) wantStatus(b *v1alpha1.CRCBundle) {
	w.t.Helper()
	volume, err := shared.Kube.CoreV1().PersistentVolumeClaims(guestcluster.BundleNamespace).Get(w.t.Context(), w.name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	key, err := shared.Kube.CoreV1().Secrets(guestcluster.BundleNamespace).Get(w.t.Context(), v1alpha1.BootKeySecretName(w.name), metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	s := b.Status
	if want := (v1alpha1.ObjectReference{Namespace: guestcluster.BundleNamespace, Name: w.name, UID: volume.UID}); *s.GoldenVolume != want {
		w.t.Errorf("golden volume is %v, want %v", *s.GoldenVolume, want)
	}
	if s.SSHKeySecretRef.Name != key.Name || s.OCPVersion != w.version || s.SHA256 != checksum || s.Run == nil || s.Failure != nil {
		w.t.Errorf("status is %+v", s)
	}
	if s.BuildTime.UTC().Format(time.RFC3339) != buildTime || s.NotAfter.Sub(s.BuildTime.Time) != 30*24*time.Hour {
		w.t.Errorf("built %s, good until %s", s.BuildTime, s.NotAfter)
	}
	if !metav1.IsControlledBy(volume, b) || !metav1.IsControlledBy(key, b) {
		w.t.Errorf("owners of the volume %v, of the key %v", volume.OwnerReferences, key.OwnerReferences)
	}
}

func TestPoolsOfTwoNamespacesShareABundle(t *testing.T) {
	t.Parallel()
	b := newBundleWorld(t, nil)
	b.start(nil)
	first, second := running(t, nil), running(t, nil)
	first.pool(b.pool)
	second.pool(func(s *v1alpha1.ClusterPoolSpec) { b.pool(s); s.Template.StorageClassName = "fast" })
	bundle := b.ready()
	first.slot(0)
	second.slot(0)
	if runs := b.runs(); len(runs) != 1 {
		t.Errorf("%d runs prepared it", len(runs))
	}
	// Either pool may have come first.
	differs := second
	if bundle.Spec.StorageClassName == "fast" {
		differs = first
	}
	differs.poolCondition(v1alpha1.ConditionProvisioningAllowed, v1alpha1.ReasonBundleStorageDiffers, "clones may be slow")
}

func TestFailedPreparation(t *testing.T) {
	t.Parallel()
	const said = "the mirror has no such bundle: GET https://mirror.test/x.crcbundle: status 404; password=hunter2"
	b := newBundleWorld(t, func(string) prepareAct { return prepareAct{Fail: true, ExitCode: 10, Message: said} })
	b.start(nil)
	w := running(t, nil)
	w.pool(b.pool)
	bundle := b.phase(v1alpha1.BundleFailed, v1alpha1.ReasonBundleFailed, "RunFailed in run prepare-4", "task fetch-bundle, step fetch (exit code 10)",
		"the version or the bundle's spec needs a change", "https://mirror.test/x.crcbundle: status 404; password=[redacted]")
	if f := bundle.Status.Failure; f.Task != "fetch-bundle" || f.Step != "fetch" || f.ExitCode != 10 || f.Run != bundle.Status.Run.Name {
		t.Errorf("failure is %+v", f)
	}
	w.poolCondition(v1alpha1.ConditionProvisioningAllowed, v1alpha1.ReasonBundleFailed, "kubectl delete crcbundle "+b.name, "status 404")
	w.lease("job", nil)
	w.reason("job", v1alpha1.ReasonPoolNotProvisioning, "status 404")
	if runs := b.runs(); len(runs) != 1 {
		t.Errorf("%d runs were made", len(runs))
	}
	// Nothing but deleting it prepares it anew; the pool makes it again.
	b.delete()
	broker.Await(t, b.bundles, b.name, func(next *v1alpha1.CRCBundle, found bool) string {
		if !found || next.UID == bundle.UID || !next.IsFailed() {
			return fmt.Sprintf("exists %t", found)
		}
		return ""
	})
	if err := w.pools.Delete(t.Context(), poolName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestLostPreparation(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		act     prepareScript
		phase   v1alpha1.BundlePhase
		reason  v1alpha1.Reason
		attempt int32
		texts   []string
	}{
		{"the run is deleted once", func(n string) prepareAct { return prepareAct{Delete: n == "0"} }, v1alpha1.BundleReady, v1alpha1.ReasonBundleReady, 1, nil},
		{"the run is cancelled twice", func(n string) prepareAct { return prepareAct{Cancel: n != "2"} }, v1alpha1.BundleReady, v1alpha1.ReasonBundleReady, 2, nil},
		{"its pods are killed twice", func(n string) prepareAct { return prepareAct{Fail: n != "2", ExitCode: 13} }, v1alpha1.BundleReady, v1alpha1.ReasonBundleReady, 2, nil},
		{"every run is deleted", func(string) prepareAct { return prepareAct{Delete: true} }, v1alpha1.BundleFailed, v1alpha1.ReasonBundleFailed, 2, []string{"RunLost", "the 2 before it were lost as well"}},
		{"the run is deleted after its work", func(string) prepareAct { return prepareAct{DeleteSealed: true} }, v1alpha1.BundleReady, v1alpha1.ReasonBundleReady, 0, nil},
		{"the seal is another", func(string) prepareAct { return prepareAct{Seal: "ff"} }, v1alpha1.BundleFailed, v1alpha1.ReasonBundleFailed, 0, []string{"HandoffInvalid", "is not sealed with the results"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := newBundleWorld(t, row.act)
			b.start(nil)
			b.create(nil)
			bundle := b.phase(row.phase, row.reason, row.texts...)
			if bundle.Status.Run.Attempt != row.attempt {
				t.Errorf("ended with attempt %d, want %d", bundle.Status.Run.Attempt, row.attempt)
			}
		})
	}
}

func TestBundleIsNotReadyWhileAPodMountsIt(t *testing.T) {
	t.Parallel()
	b := newBundleWorld(t, func(string) prepareAct { return prepareAct{Pod: true} })
	b.start(nil)
	b.create(nil)
	b.phase(v1alpha1.BundlePreparing, v1alpha1.ReasonBundleInUse, "waiting for pod "+b.name)
	pods := shared.Kube.CoreV1().Pods(guestcluster.BundleNamespace)
	pod, err := pods.Get(t.Context(), b.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase = corev1.PodSucceeded
	if _, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.ready()
	if err := pods.Delete(t.Context(), pod.Name, now()); err != nil {
		t.Fatal(err)
	}
}

func TestReadyBundleThatLosesItsParts(t *testing.T) {
	t.Parallel()
	for what, text := range map[string]string{"volume": "PersistentVolumeClaim guestcluster-bundles/", "key": "Secret guestcluster-bundles/"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := newBundleWorld(t, nil)
			b.start(nil)
			b.create(nil)
			b.ready()
			core, err := shared.Kube.CoreV1(), error(nil)
			if what == "volume" {
				err = core.PersistentVolumeClaims(guestcluster.BundleNamespace).Delete(t.Context(), b.name, metav1.DeleteOptions{})
			} else {
				err = core.Secrets(guestcluster.BundleNamespace).Delete(t.Context(), v1alpha1.BootKeySecretName(b.name), metav1.DeleteOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
			b.wake()
			b.phase(v1alpha1.BundleFailed, v1alpha1.ReasonBundleLost, text, "kubectl delete crcbundle "+b.name)
		})
	}
}

// wake makes the controllers look again before their timer does.
func (w *bundleWorld) wake() {
	w.t.Helper()
	patch := []byte(`{"metadata":{"annotations":{"test/wake":"` + shared.Name("w") + `"}}}`)
	if _, err := w.bundles.Patch(w.t.Context(), w.name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func TestEndedRunsGo(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		act   prepareAct
		phase v1alpha1.BundlePhase
		kept  time.Duration
	}{
		{"ten minutes after it became Ready", prepareAct{}, v1alpha1.BundleReady, 10 * time.Minute},
		{"an hour after it failed", prepareAct{Fail: true, ExitCode: 11}, v1alpha1.BundleFailed, time.Hour},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := newBundleWorld(t, func(string) prepareAct { return row.act })
			clock := clocktesting.NewFakeClock(time.Now())
			b.clock = clock
			b.start(nil)
			b.create(nil)
			broker.Await(t, b.bundles, b.name, func(bundle *v1alpha1.CRCBundle, _ bool) string {
				if bundle.Status.Phase != row.phase {
					return "phase " + string(bundle.Status.Phase)
				}
				return ""
			})
			clock.Step(row.kept - time.Minute)
			b.wake()
			time.Sleep(sincePause)
			if len(b.runs()) != 1 {
				t.Fatal("the run went too early")
			}
			clock.Step(2 * time.Minute)
			b.wake()
			eventually(t, "the run to go", func(context.Context) string {
				if len(b.runs()) > 0 {
					return "it is still there"
				}
				return ""
			})
		})
	}
}

// TestBundleWaitsForItsPipeline is not parallel: it takes the Pipeline away.
func TestBundleWaitsForItsPipeline(t *testing.T) {
	b := newBundleWorld(t, nil)
	pipelines := shared.Tekton.TektonV1().Pipelines(guestcluster.BundleNamespace)
	pipeline, err := pipelines.Get(t.Context(), "prepare-bundle", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := pipelines.Delete(t.Context(), pipeline.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.start(nil)
	b.create(nil)
	b.phase(v1alpha1.BundlePending, v1alpha1.ReasonPipelineNotFound, `Pipeline "prepare-bundle" is not in namespace guestcluster-bundles`)
	if _, err := b.bundles.Patch(t.Context(), b.name, types.MergePatchType, []byte(`{"spec":{"sha256":"`+checksum+`"}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("the spec of a Pending bundle cannot change: %v", err)
	}
	pipeline.ResourceVersion, pipeline.UID = "", ""
	if _, err := pipelines.Create(t.Context(), pipeline, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.ready()
	if runs := b.runs(); len(runs) != 1 || paramOf(&runs[0], "sha256") != checksum {
		t.Errorf("the run has not got the changed spec: %d runs", len(runs))
	}
}

// TestBundleTransitionsHaveOneEventEach counts what kubectl describe shows.
func TestBundleTransitionsHaveOneEventEach(t *testing.T) {
	t.Parallel()
	b := newBundleWorld(t, nil)
	b.start(nil)
	bundle := b.create(nil)
	b.ready()
	eventually(t, "the Event", func(ctx context.Context) string {
		list, err := shared.Kube.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(bundle.UID) + ",reason=BundleReady"})
		if err != nil {
			return err.Error()
		}
		if len(list.Items) != 1 || list.Items[0].Count > 1 {
			return fmt.Sprintf("%d Events", len(list.Items))
		}
		return ""
	})
	if c := meta.FindStatusCondition(b.ready().Status.Conditions, v1alpha1.ConditionReady); c.ObservedGeneration == 0 {
		t.Error("the condition speaks of no generation")
	}
}
