package virt

import (
	"context"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/step"
)

// Disk is where an instance's disk stands.
type Disk struct {
	// Volume is nil when there is none, or no more.
	Volume *cdiv1.DataVolume
	// Missing means that there is neither DataVolume nor claim.
	Missing bool
	// Leaving means that what is there is being deleted.
	Leaving bool
	// Usable means that a machine can be made for it; Filled, that all bytes are there.
	Usable, Filled bool
	// Said is a few words for people.
	Said string
	// Trouble keeps it from being filled.
	Trouble Trouble
}

// Words are what is said of the disk, with its trouble.
func (d Disk) Words() string {
	if d.Trouble.Text == "" {
		return d.Said
	}
	return d.Said + "; " + d.Trouble.Text
}

// Disks looks at an instance's disk.
type Disks struct {
	Clients
	// Owner is the instance.
	Owner kube.Owner
	// Warnings explain why a disk is not filled.
	Warnings *Warnings
}

// Look says where the disk of that name stands, and refuses one of another owner.
func (d *Disks) Look(ctx context.Context, name string) (Disk, error) {
	volume, err := d.DataVolumes.Get(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return d.claimAlone(ctx, name)
	case err != nil:
		return Disk{}, kube.Classify("read DataVolume", err, Hint)
	case !d.Owner.Owns(volume):
		return Disk{}, d.foreign("DataVolume", name)
	case volume.DeletionTimestamp != nil:
		return Disk{Volume: volume, Leaving: true, Said: "DataVolume is being deleted"}, nil
	}
	disk := judge(volume)
	if warning := d.Warnings.Newest(ctx, name, volume.CreationTimestamp.Time); warning != nil && waiting(volume) && disk.Trouble.Kind == "" {
		disk.Trouble = explain(warning.Reason, warning.Message)
	}
	return disk, nil
}

// claimAlone: old CDI deletes a DataVolume that is done and hands its claim to
// the instance. A claim that a DataVolume still owns goes with it.
func (d *Disks) claimAlone(ctx context.Context, name string) (Disk, error) {
	claim, err := d.Claims.Get(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return Disk{Missing: true, Said: "missing"}, nil
	case err != nil:
		return Disk{}, kube.Classify("read PersistentVolumeClaim", err, Hint)
	case claim.DeletionTimestamp != nil || ownedByVolume(claim):
		return Disk{Leaving: true, Said: "PersistentVolumeClaim is being deleted"}, nil
	case !d.Owner.Owns(claim):
		return Disk{}, d.foreign("PersistentVolumeClaim", name)
	}
	done := claim.Status.Phase == corev1.ClaimBound
	return Disk{Usable: done, Filled: done, Said: "PersistentVolumeClaim " + string(claim.Status.Phase)}, nil
}

func ownedByVolume(claim *corev1.PersistentVolumeClaim) bool {
	for _, owner := range claim.OwnerReferences {
		if owner.Kind == "DataVolume" {
			return true
		}
	}
	return false
}

func (d *Disks) foreign(kind, name string) error {
	return step.UserError("%s %s/%s exists and does not belong to ClusterInstance %s: delete it, or move the pool to a namespace without it",
		kind, d.Owner.Namespace, name, d.Owner.Name)
}

// judge reads what a DataVolume says of itself. WaitForFirstConsumer, or
// PendingPopulation as newer CDI says, waits for the machine: so make it.
func judge(volume *cdiv1.DataVolume) Disk {
	disk := Disk{Volume: volume, Said: said(volume), Trouble: ownTrouble(volume)}
	switch volume.Status.Phase {
	case cdiv1.Succeeded:
		disk.Usable, disk.Filled, disk.Trouble = true, true, Trouble{}
	case cdiv1.WaitForFirstConsumer, cdiv1.PendingPopulation:
		disk.Usable = true
	}
	return disk
}

// waiting says whether nothing moves yet, so that a warning tells why.
func waiting(volume *cdiv1.DataVolume) bool {
	switch volume.Status.Phase {
	case cdiv1.PhaseUnset, cdiv1.Pending, cdiv1.PVCBound, cdiv1.ImportScheduled, cdiv1.CloneScheduled, cdiv1.Unknown:
		return true
	}
	return false
}

// said is the phase with the progress in steps of ten percent.
func said(volume *cdiv1.DataVolume) string {
	phase := string(volume.Status.Phase)
	if phase == "" {
		phase = "not looked at by CDI yet"
	}
	percent, err := strconv.ParseFloat(strings.TrimSuffix(string(volume.Status.Progress), "%"), 64)
	if err != nil || volume.Status.Phase == cdiv1.Succeeded {
		return phase
	}
	return phase + " " + strconv.Itoa(int(percent)/10*10) + "%"
}

func condition(volume *cdiv1.DataVolume, kind cdiv1.DataVolumeConditionType) cdiv1.DataVolumeCondition {
	for _, c := range volume.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return cdiv1.DataVolumeCondition{}
}
