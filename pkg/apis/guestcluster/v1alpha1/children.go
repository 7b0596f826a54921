package v1alpha1

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
)

// ChildMeta is the metadata of an object that the controller makes for the
// instance: a name, labels for people, and the owner reference that proves it.
func (i *ClusterInstance) ChildMeta(name string) metav1.ObjectMeta {
	labels := map[string]string{
		guestcluster.ManagedByLabel:   guestcluster.ManagedBy,
		guestcluster.InstanceLabel:    strings.TrimRight(Truncate(i.Name, 63), "-._"),
		guestcluster.InstanceUIDLabel: string(i.UID),
	}
	if i.Spec.PoolRef != nil {
		labels[guestcluster.PoolLabel] = i.Spec.PoolRef.Name
	}
	return metav1.ObjectMeta{
		Name: name, Namespace: i.Namespace, Labels: labels,
		OwnerReferences: []metav1.OwnerReference{i.owner()},
	}
}

// owner leaves blockOwnerDeletion unset: it would need update on our finalizers.
func (i *ClusterInstance) owner() metav1.OwnerReference {
	controller := true
	return metav1.OwnerReference{
		APIVersion: SchemeGroupVersion.String(), Kind: "ClusterInstance",
		Name: i.Name, UID: i.UID, Controller: &controller,
	}
}
