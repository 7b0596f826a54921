package plan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// CloneSource says whether an instance can be cloned from its bundle, nil for
// none, and what to record of it.
func CloneSource(i *v1alpha1.ClusterInstance, bundle *v1alpha1.CRCBundle) (v1alpha1.BundleIdentity, v1alpha1.Verdict) {
	if bundle == nil && i.Spec.PoolRef == nil {
		return v1alpha1.BundleIdentity{}, v1alpha1.Verdict{Reason: v1alpha1.ReasonBundleNotReady, Message: fmt.Sprintf(
			"CRCBundle %s does not exist: pools make theirs, for a standalone instance make it yourself, with spec.version %s and spec.arch %s",
			i.Bundle(), i.Spec.Template.CRCVersion, arch(i))}
	}
	verdict := PoolBundle(&v1alpha1.ClusterPoolSpec{Type: i.Spec.Type, Template: i.Spec.Template}, bundle)
	if !verdict.OK {
		return v1alpha1.BundleIdentity{}, verdict
	}
	if bundle.Status.GoldenVolume == nil || bundle.Status.SSHKeySecretRef == nil {
		return v1alpha1.BundleIdentity{}, v1alpha1.Verdict{Reason: v1alpha1.ReasonBundleNotReady,
			Message: "CRCBundle " + bundle.Name + " names no volume or no key yet"}
	}
	return identityOf(bundle), verdict
}

func identityOf(bundle *v1alpha1.CRCBundle) v1alpha1.BundleIdentity {
	return v1alpha1.BundleIdentity{
		Name: bundle.Name, UID: bundle.UID, VolumeUID: bundle.Status.GoldenVolume.UID, SHA256: bundle.Status.SHA256,
	}
}

func arch(i *v1alpha1.ClusterInstance) string {
	if i.Spec.Template.CRCArch != "" {
		return i.Spec.Template.CRCArch
	}
	return v1alpha1.DefaultArch
}

// CloneSourceLost says why the recorded bundle cannot be cloned any more;
// nothing when it can. Bundle is nil when it is gone; volume is the UID of the
// live golden volume, empty when that is gone or going.
func CloneSourceLost(chosen v1alpha1.BundleIdentity, bundle *v1alpha1.CRCBundle, volume types.UID) string {
	claim := "PersistentVolumeClaim " + guestcluster.BundleNamespace + "/" + chosen.Name
	switch {
	case bundle == nil || bundle.DeletionTimestamp != nil:
		return "CRCBundle " + chosen.Name + " was deleted"
	case bundle.UID != chosen.UID || bundle.Status.GoldenVolume == nil:
		return "CRCBundle " + chosen.Name + " was made anew"
	case volume == "":
		return claim + " was deleted"
	case volume != chosen.VolumeUID || bundle.Status.GoldenVolume.UID != chosen.VolumeUID:
		return claim + " was replaced by another"
	}
	return ""
}
