package lease

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/reconciler/index"
	"opdev.io/guestcluster/pkg/reconciler/metrics"
)

// finalized are the leases that this process gave back because somebody
// deleted them. A finalizer may have to be taken away twice; the deletion that
// follows is seen once, and not by who only watches.
type finalized struct{ uids sync.Map }

func (f *finalized) add(uid types.UID) { f.uids.Store(uid, true) }

func (f *finalized) take(uid types.UID) bool {
	_, ok := f.uids.LoadAndDelete(uid)
	return ok
}

// countDeleted counts the end of a lease that was deleted in use.
func (r *Reconciler) countDeleted(ctx context.Context) func(any) {
	return func(obj any) {
		lease, ok := index.FinalState(obj).(*v1alpha1.ClusterLease)
		if ok && r.finalized.take(lease.UID) {
			r.countReleased(ctx, lease, metrics.ReasonDeleted)
		}
	}
}

func (r *Reconciler) countReleased(ctx context.Context, lease *v1alpha1.ClusterLease, reason string) {
	_, err := r.Pools.ClusterPools(lease.PoolNamespace()).Get(lease.Spec.PoolRef.Name)
	r.Metrics.Released(ctx, lease, err == nil, reason)
}
