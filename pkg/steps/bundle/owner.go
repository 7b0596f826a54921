package bundle

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// Meta is the metadata of an object of a bundle. The CRCBundle with that UID
// owns it; a run that a person started has no UID to tell.
func Meta(bundle, uid, name, namespace string) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{
		Name: name, Namespace: namespace,
		Labels:      map[string]string{guestcluster.BundleLabel: bundle, guestcluster.ManagedByLabel: guestcluster.ManagedBy},
		Annotations: map[string]string{},
	}
	if uid != "" {
		controller := true
		meta.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "CRCBundle", Name: bundle, UID: types.UID(uid), Controller: &controller,
		}}
	}
	return meta
}
