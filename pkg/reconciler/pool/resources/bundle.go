package resources

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// Bundle is the bundle that a pool's instances are cloned from. It has no
// owner: pools of all namespaces share it.
func Bundle(pool *v1alpha1.ClusterPool) *v1alpha1.CRCBundle {
	template := &pool.Spec.Template
	return &v1alpha1.CRCBundle{
		ObjectMeta: metav1.ObjectMeta{
			Name:   v1alpha1.BundleName(template.CRCVersion, template.CRCArch),
			Labels: map[string]string{guestcluster.ManagedByLabel: guestcluster.ManagedBy},
		},
		Spec: v1alpha1.CRCBundleSpec{
			Version: template.CRCVersion, Arch: cmp.Or(template.CRCArch, v1alpha1.DefaultArch),
			StorageClassName: template.StorageClassName,
		},
	}
}
