package resources

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

func childMeta(i *v1alpha1.ClusterInstance, name string) metav1.ObjectMeta {
	labels := map[string]string{
		guestcluster.ManagedByLabel:   guestcluster.ManagedBy,
		guestcluster.InstanceLabel:    strings.TrimRight(v1alpha1.Truncate(i.Name, 63), "-._"),
		guestcluster.InstanceUIDLabel: string(i.UID),
	}
	if i.Spec.PoolRef != nil {
		labels[guestcluster.PoolLabel] = i.Spec.PoolRef.Name
	}
	return metav1.ObjectMeta{
		Name: name, Namespace: i.Namespace, Labels: labels,
		OwnerReferences: []metav1.OwnerReference{owner(i)},
	}
}

// owner leaves blockOwnerDeletion unset: it would need update on our finalizers.
func owner(i *v1alpha1.ClusterInstance) metav1.OwnerReference {
	controller := true
	return metav1.OwnerReference{
		APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "ClusterInstance",
		Name: i.Name, UID: i.UID, Controller: &controller,
	}
}
