package index

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// EnqueuePoolOfInstance is an event handler that wakes the pool of an instance.
func EnqueuePoolOfInstance(enqueue func(types.NamespacedName)) func(any) {
	return func(obj any) {
		if i, ok := FinalState(obj).(*v1alpha1.ClusterInstance); ok && i.Spec.PoolRef != nil {
			enqueue(types.NamespacedName{Namespace: i.Namespace, Name: i.Spec.PoolRef.Name})
		}
	}
}

// EnqueuePoolOfLease is an event handler that wakes the pool that a lease names.
func EnqueuePoolOfLease(enqueue func(types.NamespacedName)) func(any) {
	return func(obj any) {
		if l, ok := FinalState(obj).(*v1alpha1.ClusterLease); ok {
			enqueue(types.NamespacedName{Namespace: l.PoolNamespace(), Name: l.Spec.PoolRef.Name})
		}
	}
}

// FinalState is the object of an event, also of a deletion that was missed.
func FinalState(obj any) any {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return gone.Obj
	}
	return obj
}
