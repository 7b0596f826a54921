package v1alpha1

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func bundle() *CRCBundle {
	return &CRCBundle{
		ObjectMeta: metav1.ObjectMeta{Name: "crc-4.19.3-amd64", UID: "b", Generation: 2},
		Spec:       CRCBundleSpec{Version: "4.19.3", Arch: "amd64"},
	}
}

func TestBundleGoesFromPendingToReady(t *testing.T) {
	built := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	golden := ObjectReference{Namespace: "guestcluster-bundles", Name: "crc-4.19.3-amd64", UID: "pvc"}
	b := bundle()
	steps := []struct {
		name   string
		mark   func()
		phase  BundlePhase
		reason Reason
	}{
		{"no Pipeline", func() { b.MarkWaiting(ReasonPipelineNotFound, "apply it") }, BundlePending, ReasonPipelineNotFound},
		{"a run begins", func() { b.MarkRun(RunStatus{Name: "r"}); b.MarkWaiting(ReasonBundlePreparing, "begins") }, BundlePreparing, ReasonBundlePreparing},
		{"a pod still mounts it", func() { b.MarkWaiting(ReasonBundleInUse, "pod p") }, BundlePreparing, ReasonBundleInUse},
		{"all is done", func() {
			b.MarkReady(Prepared{GoldenVolume: golden, SSHKeySecret: "k", OCPVersion: "4.19.3", SHA256: "0a", BuildTime: built})
		}, BundleReady, ReasonBundleReady},
		{"its volume is deleted", func() { b.MarkLost("the volume is gone", metav1.Now()) }, BundleFailed, ReasonBundleLost},
		{"it is deleted", func() { b.MarkDeleting("waiting for the volume") }, BundleFailed, ReasonBundleDeleting},
	}
	for _, step := range steps {
		step.mark()
		if b.Status.Phase != step.phase || b.ReadyReason() != step.reason {
			t.Errorf("%s: phase %s, reason %s", step.name, b.Status.Phase, b.ReadyReason())
		}
		if b.IsReady() != (step.phase == BundleReady) || b.IsFailed() != (step.phase == BundleFailed) {
			t.Errorf("%s: ready %t, failed %t", step.name, b.IsReady(), b.IsFailed())
		}
	}
	want := built.Add(30 * 24 * time.Hour)
	if s := b.Status; !s.NotAfter.Time.Equal(want) || *s.GoldenVolume != golden || s.SSHKeySecretRef.Name != "k" || s.Failure.Reason != string(ReasonBundleLost) {
		t.Errorf("status is %+v", s)
	}
}

func TestBundleIsNotReadyWhileItIsDeleted(t *testing.T) {
	b := bundle()
	b.MarkReady(Prepared{})
	if b.Status.NotAfter != nil || !b.IsReady() {
		t.Errorf("a bundle without build time: %+v", b.Status)
	}
	b.DeletionTimestamp = &metav1.Time{}
	if b.IsReady() {
		t.Error("it is Ready while it is deleted")
	}
}

func TestFailedBundleKeepsWhy(t *testing.T) {
	b := bundle()
	b.MarkFailed(FailureStatus{Reason: "RunFailed", Message: strings.Repeat("x", 3000)}, "RunFailed in run r: x")
	if c := meta.FindStatusCondition(b.Status.Conditions, ConditionReady); c.Reason != string(ReasonBundleFailed) || c.Message != "RunFailed in run r: x" {
		t.Errorf("condition %+v", c)
	}
	if len(b.Status.Failure.Message) != maxConditionMessage {
		t.Errorf("the failure's message has %d bytes", len(b.Status.Failure.Message))
	}
}

func TestBundleRunNames(t *testing.T) {
	rows := map[string]struct {
		uid           types.UID
		version, arch string
		attempt       int32
		want          string
	}{
		"a release":       {"b", "4.19.3", "amd64", 0, "prepare-4-19-3-amd64-3e23e81600-0"},
		"no arch":         {"b", "4.19.3", "", 1, "prepare-4-19-3-amd64-3e23e81600-1"},
		"another object":  {"c", "4.19.3", "amd64", 0, "prepare-4-19-3-amd64-2e7d2c03a9-0"},
		"a long version":  {"b", "4.20.0-okd-scos.ec.15-20260102030405", "arm64", 2, "prepare-4-20-0-okd-scos-ec-15-20260102-3e23e81600-2"},
		"odd characters+": {"b", "4.20.0+x", "amd64", 0, "prepare-4-20-0-x-amd64-3e23e81600-0"},
	}
	for name, row := range rows {
		b := &CRCBundle{ObjectMeta: metav1.ObjectMeta{UID: row.uid}, Spec: CRCBundleSpec{Version: row.version, Arch: row.arch}}
		if diff := cmp.Diff(row.want, b.RunName(row.attempt)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if len(b.RunName(row.attempt)) > 63 {
			t.Errorf("%s: too long", name)
		}
	}
}
