package cdi

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func spec(size string) *corev1.PersistentVolumeClaimSpec {
	s := &corev1.PersistentVolumeClaimSpec{}
	if size != "" {
		s.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	}
	return s
}

func TestRequiredClaimHasRoomForTheImage(t *testing.T) {
	for _, image := range []int64{1, 1 << 20, 33285996544, 80 << 30, 43<<30 + 1} {
		claim := required(image)
		if usable(claim) < image {
			t.Errorf("image of %d: claim of %d takes only %d", image, claim, usable(claim))
		}
		if float64(claim) < 1.06*float64(image) {
			t.Errorf("image of %d: claim of %d lacks the file system's share", image, claim)
		}
	}
}

func TestBuildClaim(t *testing.T) {
	source := &corev1.PersistentVolumeClaim{Spec: *spec("33Gi")}
	clone := &Source{PVC: &PVCSource{Namespace: "golden", Name: "image"}}
	for _, row := range []struct {
		name      string
		spec      Spec
		populator bool
		size      int64
	}{
		{"the storage form adds the file system's share", Spec{Source: clone, Storage: spec("80Gi")}, true, 91053306676},
		{"the pvc form adds nothing", Spec{Source: clone, PVC: spec("80Gi")}, false, 80 << 30},
		{"a clone without a size gets its source's", Spec{Source: clone, Storage: spec("")}, true, 33 << 30},
	} {
		t.Run(row.name, func(t *testing.T) {
			v := &DataVolume{Spec: row.spec}
			v.Name, v.Namespace, v.UID = "disk", "clusters", "uid"
			claim := buildClaim(v, source, row.populator)
			if got := requested(&claim.Spec); got != row.size {
				t.Errorf("got size %d, want %d", got, row.size)
			}
			if claim.Spec.AccessModes[0] != corev1.ReadWriteOnce || claim.OwnerReferences[0].UID != v.UID {
				t.Errorf("got access modes %v, owners %v", claim.Spec.AccessModes, claim.OwnerReferences)
			}
			if has := claim.Spec.DataSourceRef != nil; has != row.populator {
				t.Errorf("got a source for a populator: %v", has)
			}
		})
	}
}
