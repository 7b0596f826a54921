package v1alpha1

import "k8s.io/apimachinery/pkg/types"

// Bundle is the name of the CRCBundle whose golden volume the instance's disk
// is cloned from; empty when it is imported, or the topology has no bundles.
func (i *ClusterInstance) Bundle() string {
	if i.Spec.Type != TypeCRC || i.Spec.Template.CRCVersion == "" {
		return ""
	}
	return BundleName(i.Spec.Template.CRCVersion, i.Spec.Template.CRCArch)
}

// ChosenBundle is the bundle that was recorded for the instance, or nil.
func (i *ClusterInstance) ChosenBundle() *BundleIdentity {
	if i.Status.CRC == nil {
		return nil
	}
	return i.Status.CRC.Bundle
}

// VMIUID is the UID of the machine that was last seen to run; empty before.
func (i *ClusterInstance) VMIUID() types.UID {
	if i.Status.CRC == nil {
		return ""
	}
	return i.Status.CRC.VMIUID
}

// MarkBundle records what the disk is cloned from, before anything is made.
func (i *ClusterInstance) MarkBundle(bundle BundleIdentity) {
	i.crc().Bundle = &bundle
}

// MarkMachine records the machine that runs now, and what it is made of.
func (i *ClusterInstance) MarkMachine(vmi types.UID) {
	crc := i.crc()
	crc.VMName, crc.DataVolumeName, crc.VMIUID = i.DerivedName(), i.DerivedName(), vmi
}

func (i *ClusterInstance) crc() *CRCStatus {
	if i.Status.CRC == nil {
		i.Status.CRC = &CRCStatus{}
	}
	return i.Status.CRC
}

// ReachableReason is the reason of condition GuestAPIReachable.
func (s *ClusterInstanceStatus) ReachableReason() Reason {
	return reasonOf(s.Conditions, ConditionGuestAPIReachable)
}
