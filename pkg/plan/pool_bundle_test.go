package plan

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

func TestPoolBundleName(t *testing.T) {
	rows := map[string]struct {
		spec v1alpha1.ClusterPoolSpec
		want string
	}{
		"crc with a version":         {v1alpha1.ClusterPoolSpec{Type: v1alpha1.TypeCRC, Template: v1alpha1.ClusterTemplate{CRCVersion: "4.19.3"}}, bundleName},
		"crc for arm64":              {v1alpha1.ClusterPoolSpec{Type: v1alpha1.TypeCRC, Template: v1alpha1.ClusterTemplate{CRCVersion: "4.19.3", CRCArch: "arm64"}}, "crc-4.19.3-arm64"},
		"version wins over image":    {v1alpha1.ClusterPoolSpec{Type: v1alpha1.TypeCRC, Template: v1alpha1.ClusterTemplate{CRCVersion: "4.19.3", ReleaseImage: "https://x"}}, bundleName},
		"an image of the pool's own": {v1alpha1.ClusterPoolSpec{Type: v1alpha1.TypeCRC, Template: v1alpha1.ClusterTemplate{ReleaseImage: "https://x"}}, ""},
		"custom":                     {v1alpha1.ClusterPoolSpec{Type: v1alpha1.TypeCustom}, ""},
	}
	for name, row := range rows {
		if got := PoolBundleName(&row.spec); got != row.want {
			t.Errorf("%s: got %q, want %q", name, got, row.want)
		}
	}
}

func TestPoolBundle(t *testing.T) {
	ready := func(b *v1alpha1.CRCBundle) { b.MarkReady(v1alpha1.Prepared{}) }
	storage := func(name string) func(*v1alpha1.CRCBundle) {
		return func(b *v1alpha1.CRCBundle) { ready(b); b.Spec.StorageClassName = name }
	}
	rows := map[string]struct {
		bundle *v1alpha1.CRCBundle
		class  string
		ok     bool
		reason v1alpha1.Reason
		says   string
	}{
		"there is none":    {nil, "", false, v1alpha1.ReasonBundleNotReady, "is being made"},
		"it was just made": {bundle(), "", false, v1alpha1.ReasonBundleNotReady, "is being prepared"},
		"it is being prepared": {bundle(func(b *v1alpha1.CRCBundle) {
			b.MarkRun(v1alpha1.RunStatus{})
			b.MarkWaiting(v1alpha1.ReasonBundlePreparing, "run r")
		}), "",
			false, v1alpha1.ReasonBundleNotReady, "BundlePreparing: run r"},
		"it failed": {bundle(func(b *v1alpha1.CRCBundle) {
			b.MarkFailed(v1alpha1.FailureStatus{}, "no such bundle at https://mirror")
		}), "",
			false, v1alpha1.ReasonBundleFailed, "kubectl delete crcbundle " + bundleName + ". It said: no such bundle at https://mirror"},
		"it was lost":                   {bundle(ready, func(b *v1alpha1.CRCBundle) { b.MarkLost("the volume is gone", metav1.Time{}) }), "", false, v1alpha1.ReasonBundleFailed, "the volume is gone"},
		"it is deleted":                 {bundle(ready, func(b *v1alpha1.CRCBundle) { b.DeletionTimestamp = &metav1.Time{} }), "", false, v1alpha1.ReasonBundleNotReady, "is being deleted"},
		"it is Ready":                   {bundle(ready), "", true, v1alpha1.ReasonNamespaceEnabled, ""},
		"the same class":                {bundle(storage("fast")), "fast", true, v1alpha1.ReasonNamespaceEnabled, ""},
		"another class":                 {bundle(storage("fast")), "slow", true, v1alpha1.ReasonBundleStorageDiffers, "has fast storage class and the pool asks for slow storage class"},
		"only the bundle names a class": {bundle(storage("fast")), "", true, v1alpha1.ReasonBundleStorageDiffers, "the pool asks for the default storage class"},
	}
	for name, row := range rows {
		spec := v1alpha1.ClusterPoolSpec{Type: v1alpha1.TypeCRC, Template: v1alpha1.ClusterTemplate{CRCVersion: "4.19.3", StorageClassName: row.class}}
		got := PoolBundle(&spec, row.bundle)
		if got.OK != row.ok || got.Reason != row.reason || !strings.Contains(got.Message, row.says) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}
