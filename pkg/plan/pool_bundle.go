package plan

import (
	"cmp"
	"fmt"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// PoolBundleName is the CRCBundle that a pool's instances are cloned from;
// empty when they need none.
func PoolBundleName(spec *v1alpha1.ClusterPoolSpec) string {
	if spec.Type != v1alpha1.TypeCRC || spec.Template.CRCVersion == "" {
		return ""
	}
	return v1alpha1.BundleName(spec.Template.CRCVersion, spec.Template.CRCArch)
}

// PoolBundle says whether the pool's bundle lets instances be made. Bundle is
// nil when there is none yet: then it is to be made.
func PoolBundle(spec *v1alpha1.ClusterPoolSpec, bundle *v1alpha1.CRCBundle) v1alpha1.Verdict {
	name := PoolBundleName(spec)
	not := func(reason v1alpha1.Reason, format string, args ...any) v1alpha1.Verdict {
		return v1alpha1.Verdict{Reason: reason, Message: "CRCBundle " + name + fmt.Sprintf(format, args...)}
	}
	switch {
	case bundle == nil:
		return not(v1alpha1.ReasonBundleNotReady, " is being made")
	case bundle.DeletionTimestamp != nil:
		return not(v1alpha1.ReasonBundleNotReady, " is being deleted and will be made anew: %s", bundle.ReadyMessage())
	case bundle.IsFailed():
		return not(v1alpha1.ReasonBundleFailed, " failed; when the cause is gone: kubectl delete crcbundle %s. It said: %s", name, bundle.ReadyMessage())
	case !bundle.IsReady():
		return not(v1alpha1.ReasonBundleNotReady, " is being prepared: %s: %s", bundle.ReadyReason(), bundle.ReadyMessage())
	case bundle.Spec.StorageClassName != spec.Template.StorageClassName:
		return v1alpha1.Verdict{OK: true, Reason: v1alpha1.ReasonBundleStorageDiffers, Message: fmt.Sprintf(
			"CRCBundle %s has %s and the pool asks for %s: clones may be slow", name,
			storageClass(bundle.Spec.StorageClassName), storageClass(spec.Template.StorageClassName))}
	}
	return v1alpha1.Verdict{OK: true, Reason: v1alpha1.ReasonNamespaceEnabled}
}

func storageClass(name string) string {
	return cmp.Or(name, "the default") + " storage class"
}
