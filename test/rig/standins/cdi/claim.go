package cdi

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	// overhead is CDI's default share of a file system's own data.
	overhead  = 0.06
	alignment = 1 << 20
)

// required is the size of a claim that has room for an image of this size.
func required(image int64) int64 {
	aligned := (image + alignment - 1) / alignment * alignment
	return int64(math.Ceil(float64(aligned) * (1 + overhead)))
}

// usable is the size of the largest image in a claim of this size.
func usable(claim int64) int64 {
	return int64(math.Ceil(float64(claim)/(1+overhead))) / alignment * alignment
}

func requested(spec *corev1.PersistentVolumeClaimSpec) int64 {
	size := spec.Resources.Requests[corev1.ResourceStorage]
	return size.Value()
}

// buildClaim makes the claim of a DataVolume. Without a size a clone gets its
// source's. A populator's claim refers to a source that no provisioner knows,
// so that it stays unbound until it is filled.
func buildClaim(v *DataVolume, source *corev1.PersistentVolumeClaim, populator bool) *corev1.PersistentVolumeClaim {
	spec := v.target().DeepCopy()
	if len(spec.AccessModes) == 0 {
		spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	}
	size := requested(spec)
	switch {
	case size == 0 && source != nil:
		size = requested(&source.Spec)
	case v.Spec.Storage != nil:
		size = required(size)
	}
	spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(size, resource.BinarySI)}
	if populator {
		spec.DataSourceRef = populationSource(v)
	}
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: v.Name, Namespace: v.Namespace,
			Labels: map[string]string{
				"app": "containerized-data-importer", "app.kubernetes.io/managed-by": "cdi-controller",
				"app.kubernetes.io/component": "storage",
			},
			Annotations: map[string]string{
				annotationContent: "kubevirt", "cdi.kubevirt.io/createdForDataVolume": string(v.UID),
			},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(v, kind)},
		},
		Spec: *spec,
	}
}

func populationSource(v *DataVolume) *corev1.TypedObjectReference {
	reference := &corev1.TypedObjectReference{APIGroup: ptr.To(Resource.Group), Kind: "VolumeImportSource", Name: "volume-import-source-" + string(v.UID)}
	if v.clones() {
		reference.Kind, reference.Name = "VolumeCloneSource", "volume-clone-source-"+string(v.UID)
	}
	return reference
}
