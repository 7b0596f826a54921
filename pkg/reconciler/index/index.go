// Package index holds the informer indexes that several reconcilers share, and
// typed look-ups over them.
package index

import (
	"fmt"
	"strings"

	"k8s.io/client-go/tools/cache"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

const (
	leasesByPool     = "guestcluster/leases-by-pool"
	leasesByHolder   = "guestcluster/leases-by-holder"
	leasesByInstance = "guestcluster/leases-by-instance"
	instancesByPool  = "guestcluster/instances-by-pool"
	instancesBySlots = "guestcluster/instances-by-slots"
)

// Leases adds the lease indexes; call it in every constructor that uses them,
// before the informers start.
func Leases(informer cache.SharedIndexInformer) error {
	return ensure(informer, cache.Indexers{
		leasesByPool:     leaseKeys(func(l *v1alpha1.ClusterLease) string { return l.PoolKey() }),
		leasesByHolder:   leaseKeys(holderUID),
		leasesByInstance: leaseKeys(instanceUID),
	})
}

// Instances adds the instance indexes, like Leases.
func Instances(informer cache.SharedIndexInformer) error {
	return ensure(informer, cache.Indexers{
		instancesByPool: instanceKeys(func(i *v1alpha1.ClusterInstance) string {
			if i.Spec.PoolRef == nil {
				return ""
			}
			return i.Spec.PoolRef.Name
		}),
		instancesBySlots: instanceKeys(slotOwner),
	})
}

// slotOwner is the pool whose slot an instance's name takes, if it takes one.
func slotOwner(i *v1alpha1.ClusterInstance) string {
	end := strings.LastIndexByte(i.Name, '-')
	return i.Name[:max(end, 0)]
}

func instanceKeys(pool func(*v1alpha1.ClusterInstance) string) cache.IndexFunc {
	return func(obj any) ([]string, error) {
		i, ok := obj.(*v1alpha1.ClusterInstance)
		if !ok {
			return nil, nil
		}
		if name := pool(i); name != "" {
			return []string{i.Namespace + "/" + name}, nil
		}
		return nil, nil
	}
}

// LeasesOfPool are the leases that name the pool namespace/name.
func LeasesOfPool(indexer cache.Indexer, pool string) ([]*v1alpha1.ClusterLease, error) {
	return byIndex[*v1alpha1.ClusterLease](indexer, leasesByPool, pool)
}

// LeasesOfHolder are the leases held by the PipelineRun of a UID.
func LeasesOfHolder(indexer cache.Indexer, uid string) ([]*v1alpha1.ClusterLease, error) {
	return byIndex[*v1alpha1.ClusterLease](indexer, leasesByHolder, uid)
}

// LeasesOfInstance are the leases whose instanceRef has the UID.
func LeasesOfInstance(indexer cache.Indexer, uid string) ([]*v1alpha1.ClusterLease, error) {
	return byIndex[*v1alpha1.ClusterLease](indexer, leasesByInstance, uid)
}

// InstancesOfPool are the instances whose poolRef names the pool namespace/name.
func InstancesOfPool(indexer cache.Indexer, pool string) ([]*v1alpha1.ClusterInstance, error) {
	return byIndex[*v1alpha1.ClusterInstance](indexer, instancesByPool, pool)
}

// InstancesInSlots are the instances whose name may be a slot of the pool
// namespace/name, whoever owns them.
func InstancesInSlots(indexer cache.Indexer, pool string) ([]*v1alpha1.ClusterInstance, error) {
	return byIndex[*v1alpha1.ClusterInstance](indexer, instancesBySlots, pool)
}

func leaseKeys(key func(*v1alpha1.ClusterLease) string) cache.IndexFunc {
	return func(obj any) ([]string, error) {
		l, ok := obj.(*v1alpha1.ClusterLease)
		if !ok {
			return nil, nil
		}
		if k := key(l); k != "" {
			return []string{k}, nil
		}
		return nil, nil
	}
}

func holderUID(l *v1alpha1.ClusterLease) string {
	if l.Spec.HolderRef == nil {
		return ""
	}
	return string(l.Spec.HolderRef.UID)
}

func instanceUID(l *v1alpha1.ClusterLease) string {
	if l.Status.InstanceRef == nil {
		return ""
	}
	return string(l.Status.InstanceRef.UID)
}

func ensure(informer cache.SharedIndexInformer, wanted cache.Indexers) error {
	missing := cache.Indexers{}
	have := informer.GetIndexer().GetIndexers()
	for name, fn := range wanted {
		if _, ok := have[name]; !ok {
			missing[name] = fn
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return informer.AddIndexers(missing)
}

func byIndex[T any](indexer cache.Indexer, name, key string) ([]T, error) {
	objects, err := indexer.ByIndex(name, key)
	if err != nil {
		return nil, fmt.Errorf("look up %s %q: %w", name, key, err)
	}
	found := make([]T, 0, len(objects))
	for _, obj := range objects {
		if t, ok := obj.(T); ok {
			found = append(found, t)
		}
	}
	return found, nil
}
