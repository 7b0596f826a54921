package plan

import (
	"time"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

const (
	minDestroyPause = time.Second
	maxDestroyPause = 15 * time.Second
)

// ClaimStands says whether the lease that an instance's claimRef names still
// holds it; nil means that there is no lease of that name.
func ClaimStands(i *v1alpha1.ClusterInstance, lease *v1alpha1.ClusterLease) bool {
	if i.Spec.ClaimRef == nil {
		return true
	}
	if lease == nil || !i.ClaimedBy(lease) || lease.Ended() {
		return false
	}
	ref := lease.Status.InstanceRef
	return ref != nil && *ref == i.Reference()
}

// PoolStands says whether the pool that an instance's poolRef names still wants
// it; nil means that there is no pool of that name. A claimed instance stands on
// its lease alone, a standalone one on itself.
func PoolStands(i *v1alpha1.ClusterInstance, pool *v1alpha1.ClusterPool) bool {
	if i.Spec.PoolRef == nil || i.Spec.ClaimRef != nil {
		return true
	}
	return pool != nil && pool.UID == i.Spec.PoolRef.UID && pool.DeletionTimestamp == nil
}

// DestroyPause is how long to wait before looking again for what is left of an
// instance, since not every kind of child is watched.
func DestroyPause(since, now time.Time) time.Duration {
	return min(max(now.Sub(since)/4, minDestroyPause), maxDestroyPause)
}
