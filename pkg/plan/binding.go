package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// QueueInterval is how old a lease's queue position may get before it is rewritten.
const QueueInterval = 30 * time.Second

// WaitingLease is a lease that may use the pool and has no instance.
type WaitingLease struct {
	Lease *v1alpha1.ClusterLease
	// Priority is the effective one.
	Priority int32
}

// Pair is a claim to commit.
type Pair struct {
	WaitingLease
	Instance *v1alpha1.ClusterInstance
}

// Pairing is one pass of a pool's matchmaking.
type Pairing struct {
	Pairs []Pair
	// Waiting leases got nothing; their queue position is their index plus one.
	Waiting []WaitingLease
}

// PairLeases gives instances to leases in the order of priority, then age, then
// name. Current instances go first, then those that are Ready for longest.
func PairLeases(waiting []WaitingLease, available []*v1alpha1.ClusterInstance, currentHash string) Pairing {
	waiting = slices.Clone(waiting)
	slices.SortFunc(waiting, compareLeases)
	available = slices.Clone(available)
	slices.SortFunc(available, func(a, b *v1alpha1.ClusterInstance) int { return compareSpares(a, b, currentHash) })
	n := min(len(waiting), len(available))
	result := Pairing{Waiting: waiting[n:]}
	for i := range n {
		result.Pairs = append(result.Pairs, Pair{WaitingLease: waiting[i], Instance: available[i]})
	}
	return result
}

// WithinNamespaceLimit keeps of each namespace as many leases, in the order of
// the queue, as may hold an instance beside those that do; the rest is over.
// No limit is 0.
func WithinNamespaceLimit(limit int32, held map[string]int, waiting []WaitingLease) (within, over []WaitingLease) {
	if limit == 0 {
		return waiting, nil
	}
	queue := slices.Clone(waiting)
	slices.SortFunc(queue, compareLeases)
	taken := map[string]int{}
	for _, w := range queue {
		ns := w.Lease.Namespace
		if held[ns]+taken[ns] >= int(limit) {
			over = append(over, w)
			continue
		}
		taken[ns]++
		within = append(within, w)
	}
	return within, over
}

// Holds says whether a lease counts to its namespace's limit: it names an
// instance and has not given it back.
func Holds(l *v1alpha1.ClusterLease) bool { return l.Status.InstanceRef != nil && !l.Ended() }

// WaitForNamespace says that others of the lease's namespace must end first. It
// counts nobody: a text that changed with each lease would be written to each.
func WaitForNamespace(pool *v1alpha1.ClusterPool, w WaitingLease) Wait {
	return Wait{Reason: v1alpha1.ReasonNamespaceAtLimit, Priority: w.Priority, Message: fmt.Sprintf(
		"pool %s/%s serves at most %d leases of namespace %s at a time (spec.lease.maxPerNamespace): waiting for one of them to end",
		pool.Namespace, pool.Name, pool.Spec.Lease.MaxPerNamespace, w.Lease.Namespace)}
}

func compareLeases(a, b WaitingLease) int {
	return cmp.Or(
		cmp.Compare(b.Priority, a.Priority),
		a.Lease.CreationTimestamp.Time.Compare(b.Lease.CreationTimestamp.Time),
		strings.Compare(a.Lease.Namespace, b.Lease.Namespace),
		strings.Compare(a.Lease.Name, b.Lease.Name),
	)
}

func compareSpares(a, b *v1alpha1.ClusterInstance, hash string) int {
	return cmp.Or(
		compareBool(IsStale(a, hash), IsStale(b, hash)),
		readyTime(a).Compare(readyTime(b)),
		strings.Compare(a.Name, b.Name),
	)
}

func readyTime(i *v1alpha1.ClusterInstance) time.Time {
	if i.Status.ReadyTime == nil {
		return time.Time{}
	}
	return i.Status.ReadyTime.Time
}

// EffectivePriority is the lease's priority, capped by the pool's maxPriority.
func EffectivePriority(lease *v1alpha1.ClusterLease, pool *v1alpha1.ClusterPool) int32 {
	limit := int32(0)
	if pool.Spec.Lease != nil {
		limit = pool.Spec.Lease.MaxPriority
	}
	return min(lease.Spec.Priority, limit)
}

// Wait is what a waiting lease is told.
type Wait struct {
	Reason   v1alpha1.Reason
	Message  string
	Position int32
	// Priority is the effective one.
	Priority int32
}

// WaitFor says why the lease at a queue position, from 1, waits for the pool.
func WaitFor(pool *v1alpha1.ClusterPool, position, queued int) Wait {
	s := pool.Status
	w := Wait{Reason: v1alpha1.ReasonWaitingForCapacity, Position: int32(position)}
	numbers := fmt.Sprintf("position %d of %d; pool %s/%s has %d of %d instances, %d leased, %d provisioning",
		position, queued, pool.Namespace, pool.Name, s.TotalInstances, pool.Spec.MaxSize, s.LeasedInstances, s.ProvisioningInstances)
	switch {
	case pool.Spec.Paused:
		w.Reason = v1alpha1.ReasonPoolPaused
		w.Message = "the pool is paused and has no Ready instance: ask its owner to set spec.paused to false; " + numbers
	case s.ProvisioningInstances == 0 && conditionFalse(pool, v1alpha1.ConditionProvisioningHealthy):
		w.Reason = v1alpha1.ReasonProvisioningFailing
		w.Message = "provisioning fails: " + FailureText(s.LastFailure) + "; " + numbers
	case conditionFalse(pool, v1alpha1.ConditionProvisioningAllowed):
		w.Reason = v1alpha1.ReasonPoolNotProvisioning
		w.Message = "the pool may not make instances: " + conditionMessage(pool, v1alpha1.ConditionProvisioningAllowed) + "; " + numbers
	case conditionReason(pool, v1alpha1.ConditionCapacityAvailable) == v1alpha1.ReasonAtCapacity:
		w.Reason = v1alpha1.ReasonAtCapacity
		w.Message = "every slot of the pool is in use: wait for a release or raise maxSize; " + numbers
	default:
		w.Message = "waiting for an instance; " + numbers
	}
	return w
}

// TellWait says whether to write the wait into the lease now: at once when the
// reason changes, else when what it says is older than QueueInterval. Otherwise
// later says when to look again, zero for never.
func TellWait(lease *v1alpha1.ClusterLease, w Wait, now time.Time) (tell bool, later time.Duration) {
	s := lease.Status
	if s.Phase != v1alpha1.LeasePending || s.BoundReason() != w.Reason {
		return true, 0
	}
	if s.QueuePosition == w.Position && s.BoundMessage() == w.Message {
		return false, 0
	}
	if s.QueuePositionTime == nil {
		return true, 0
	}
	if age := now.Sub(s.QueuePositionTime.Time); age < QueueInterval {
		return false, QueueInterval - age
	}
	return true, 0
}
