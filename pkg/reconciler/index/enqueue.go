package index

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// EnqueuePoolOfInstance is an event handler that wakes the pool of an instance,
// and the pool whose slot it takes without belonging to it.
func EnqueuePoolOfInstance(enqueue func(types.NamespacedName)) func(any) {
	return func(obj any) {
		i, ok := FinalState(obj).(*v1alpha1.ClusterInstance)
		if !ok {
			return
		}
		owner := slotOwner(i)
		if ref := i.Spec.PoolRef; ref != nil {
			enqueue(types.NamespacedName{Namespace: i.Namespace, Name: ref.Name})
			if ref.Name == owner {
				return
			}
		}
		if owner != "" {
			enqueue(types.NamespacedName{Namespace: i.Namespace, Name: owner})
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
