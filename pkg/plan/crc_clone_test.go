package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

func clonable() *v1alpha1.CRCBundle {
	b := &v1alpha1.CRCBundle{ObjectMeta: metav1.ObjectMeta{Name: "crc-4.19.3-amd64", UID: "b1"}}
	b.MarkReady(v1alpha1.Prepared{
		GoldenVolume: v1alpha1.ObjectReference{Namespace: "guestcluster-bundles", Name: b.Name, UID: "v1"},
		SSHKeySecret: "key", OCPVersion: "4.19.3", SHA256: "abc",
	})
	return b
}

func crcInstance() *v1alpha1.ClusterInstance {
	return &v1alpha1.ClusterInstance{Spec: v1alpha1.ClusterInstanceSpec{
		Type: v1alpha1.TypeCRC, PoolRef: &v1alpha1.OwnerPool{Name: "p"}, Template: v1alpha1.ClusterTemplate{CRCVersion: "4.19.3"},
	}}
}

func TestCloneSource(t *testing.T) {
	change := func(f func(*v1alpha1.CRCBundle)) *v1alpha1.CRCBundle {
		b := clonable()
		f(b)
		return b
	}
	rows := map[string]struct {
		bundle     *v1alpha1.CRCBundle
		standalone bool
		reason     v1alpha1.Reason
		text       string
	}{
		"a Ready bundle":                   {bundle: clonable()},
		"one that the pool will make":      {reason: v1alpha1.ReasonBundleNotReady, text: "is being made"},
		"one that nobody makes":            {standalone: true, reason: v1alpha1.ReasonBundleNotReady, text: "make it yourself, with spec.version 4.19.3 and spec.arch amd64"},
		"one that failed":                  {bundle: change(func(b *v1alpha1.CRCBundle) { b.MarkLost("the volume is gone", metav1.Time{}) }), reason: v1alpha1.ReasonBundleFailed, text: "the volume is gone"},
		"one that is being deleted":        {bundle: change(func(b *v1alpha1.CRCBundle) { b.DeletionTimestamp = &metav1.Time{} }), reason: v1alpha1.ReasonBundleNotReady},
		"one whose status names no volume": {bundle: change(func(b *v1alpha1.CRCBundle) { b.Status.GoldenVolume = nil }), reason: v1alpha1.ReasonBundleNotReady},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			i := crcInstance()
			if row.standalone {
				i.Spec.PoolRef = nil
			}
			identity, verdict := CloneSource(i, row.bundle)
			if row.reason == "" {
				want := v1alpha1.BundleIdentity{Name: "crc-4.19.3-amd64", UID: "b1", VolumeUID: "v1", SHA256: "abc"}
				if diff := cmp.Diff(want, identity); !verdict.OK || diff != "" {
					t.Errorf("verdict %+v: %s", verdict, diff)
				}
				return
			}
			if verdict.OK || verdict.Reason != row.reason || !strings.Contains(verdict.Message, row.text) {
				t.Errorf("got %+v", verdict)
			}
		})
	}
}

func TestCloneSourceLost(t *testing.T) {
	chosen := v1alpha1.BundleIdentity{Name: "crc-4.19.3-amd64", UID: "b1", VolumeUID: "v1"}
	rows := map[string]struct {
		change func(*v1alpha1.CRCBundle) *v1alpha1.CRCBundle
		volume types.UID
		want   string
	}{
		"never while both are the same": {nil, "v1", ""},
		"by a volume that is gone":      {nil, "", "was deleted"},
		"by another volume":             {nil, "v2", "replaced by another"},
		"by a bundle with another volume": {func(b *v1alpha1.CRCBundle) *v1alpha1.CRCBundle {
			b.Status.GoldenVolume.UID = "v2"
			return b
		}, "v1", "replaced by another"},
		"by a bundle that is gone":    {func(*v1alpha1.CRCBundle) *v1alpha1.CRCBundle { return nil }, "v1", "was deleted"},
		"by a bundle that is deleted": {func(b *v1alpha1.CRCBundle) *v1alpha1.CRCBundle { b.DeletionTimestamp = &metav1.Time{}; return b }, "v1", "was deleted"},
		"by another bundle":           {func(b *v1alpha1.CRCBundle) *v1alpha1.CRCBundle { b.UID = "b2"; return b }, "v1", "made anew"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			b := clonable()
			if row.change != nil {
				b = row.change(b)
			}
			got := CloneSourceLost(chosen, b, row.volume)
			if (got == "") != (row.want == "") || !strings.Contains(got, row.want) {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}
