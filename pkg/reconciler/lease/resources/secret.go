// Package resources builds what a lease owns, as pure functions.
package resources

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// leaseKind is the kind in the access Secret's owner reference.
const leaseKind = "ClusterLease"

// AccessSecret is <lease>-access with what CI may know of the instance.
func AccessSecret(lease *v1alpha1.ClusterLease, source *corev1.Secret) *corev1.Secret {
	isController := true
	data := map[string][]byte{}
	for _, key := range []string{guestcluster.KubeconfigKey, guestcluster.OCPVersionKey, guestcluster.KubeadminPasswordKey} {
		if value, ok := source.Data[key]; ok {
			data[key] = value
		}
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: lease.AccessSecretName(), Namespace: lease.Namespace,
			Labels: map[string]string{guestcluster.ManagedByLabel: guestcluster.ManagedBy},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: leaseKind,
				Name: lease.Name, UID: lease.UID, Controller: &isController,
			}},
		},
		Data: data,
	}
}

// OfLease says whether a Secret belongs to a lease of this name, of any UID.
func OfLease(secret *corev1.Secret, lease string) bool {
	owner := metav1.GetControllerOf(secret)
	return owner != nil && owner.Kind == leaseKind && owner.Name == lease && owner.APIVersion == v1alpha1.SchemeGroupVersion.String()
}
