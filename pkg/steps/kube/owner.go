package kube

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// Owner is the ClusterInstance that owns what a step makes.
type Owner struct {
	// Name, Namespace and UID of the ClusterInstance.
	Name, Namespace string
	UID             types.UID
}

// Meta is the metadata of an object of the instance.
func (o Owner) Meta(name string) metav1.ObjectMeta {
	i := v1alpha1.ClusterInstance{ObjectMeta: metav1.ObjectMeta{Name: o.Name, Namespace: o.Namespace, UID: o.UID}}
	return i.ChildMeta(name)
}

// Owns says whether an object that is there already is this instance's: by
// UID, for an instance of the same name may have gone before it.
func (o Owner) Owns(object metav1.Object) bool {
	for _, owner := range object.GetOwnerReferences() {
		if owner.UID == o.UID {
			return true
		}
	}
	return false
}
