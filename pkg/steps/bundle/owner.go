package bundle

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// Meta is the metadata of an object of a bundle. The CRCBundle with that UID
// owns it; a run that a person started knows no UID.
func Meta(bundle, uid, name, namespace string) metav1.ObjectMeta {
	b := v1alpha1.CRCBundle{ObjectMeta: metav1.ObjectMeta{Name: bundle, UID: types.UID(uid)}}
	meta := b.ChildMeta(name)
	meta.Namespace, meta.Annotations = namespace, map[string]string{}
	if uid == "" {
		meta.OwnerReferences = nil
	}
	return meta
}
