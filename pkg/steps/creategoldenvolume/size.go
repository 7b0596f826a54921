package creategoldenvolume

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"opdev.io/guestcluster/pkg/steps/step"
)

// overhead is the part of a volume, in percent, that CDI reckons a file system
// needs for itself: clones of the volume are sized by the same rule.
const overhead = 6

const gibibyte = 1 << 30

// needed is the size of a volume for a disk, in whole gibibytes.
func needed(virtual int64) resource.Quantity {
	least := (virtual*100 + 99 - overhead) / (100 - overhead)
	return resource.MustParse(fmt.Sprintf("%dGi", (least+gibibyte-1)/gibibyte))
}

// request is what to ask for: the size that was given if the disk fits.
func (o *Options) request(virtual int64) (resource.Quantity, error) {
	least := needed(virtual)
	if o.GoldenVolumeSize == "" {
		return least, nil
	}
	given := resource.MustParse(o.GoldenVolumeSize)
	if given.Cmp(least) < 0 {
		return given, step.UserError("golden-volume-size %s is too small: the disk of bundle %s has %d bytes and needs a volume of %s", o.GoldenVolumeSize, o.Name(), virtual, least.String())
	}
	return given, nil
}

// fits says whether a volume that exists can hold the disk.
func (o *Options) fits(claim *corev1.PersistentVolumeClaim, virtual int64) error {
	least := needed(virtual)
	has := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if capacity := claim.Status.Capacity[corev1.ResourceStorage]; capacity.Cmp(has) > 0 {
		has = capacity
	}
	if has.Cmp(least) < 0 {
		return step.UserError("golden volume %s/%s has %s, but the disk needs %s: delete it (kubectl -n %s delete pvc %s) and start again",
			o.Namespace, claim.Name, has.String(), least.String(), o.Namespace, claim.Name)
	}
	return nil
}
