// Package resources builds what a pool makes, as pure functions.
package resources

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// Instance is the instance in a slot. It has no owner reference: deleting a
// pool never destroys a leased cluster.
func Instance(pool *v1alpha1.ClusterPool, slot int32, templateHash string) *v1alpha1.ClusterInstance {
	return &v1alpha1.ClusterInstance{
		ObjectMeta: metav1.ObjectMeta{
			Name: v1alpha1.InstanceName(pool.Name, slot), Namespace: pool.Namespace,
			Labels: map[string]string{
				guestcluster.PoolLabel:      pool.Name,
				guestcluster.ManagedByLabel: guestcluster.ManagedBy,
			},
			Annotations: map[string]string{guestcluster.TemplateHashAnnotation: templateHash},
		},
		Spec: v1alpha1.ClusterInstanceSpec{
			Type:         pool.Spec.Type,
			PoolRef:      &v1alpha1.OwnerPool{Name: pool.Name, UID: pool.UID},
			Slot:         &slot,
			Provisioning: pool.Spec.Provisioning.DeepCopy(),
			Template:     *pool.Spec.Template.DeepCopy(),
		},
	}
}
