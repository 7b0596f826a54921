package plan

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

const currentHash = "current"

func waits(name string, priority int32, age time.Duration) WaitingLease {
	namespace, name, _ := strings.Cut(name, "/")
	return WaitingLease{Priority: priority, Lease: &v1alpha1.ClusterLease{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, CreationTimestamp: metav1.Time{Time: ago(age)}}}}
}

func spare(name, hash string, readyFor time.Duration) *v1alpha1.ClusterInstance {
	i := &v1alpha1.ClusterInstance{ObjectMeta: metav1.ObjectMeta{
		Name: name, Annotations: map[string]string{guestcluster.TemplateHashAnnotation: hash}}}
	if readyFor >= 0 {
		i.Status.ReadyTime = ptrTime(ago(readyFor))
	}
	return i
}

func TestPairLeases(t *testing.T) {
	one := []*v1alpha1.ClusterInstance{spare("a", currentHash, time.Minute)}
	tests := map[string]struct {
		waiting   []WaitingLease
		available []*v1alpha1.ClusterInstance
		pairs     []string
		left      []string
	}{
		"nothing pairs with nothing":    {},
		"an instance waits for a lease": {available: one},
		"a lease waits for an instance": {waiting: []WaitingLease{waits("ci/x", 0, 0)}, left: []string{"ci/x"}},
		"the higher priority goes first": {
			waiting:   []WaitingLease{waits("ci/old", 0, time.Hour), waits("ci/urgent", 5, time.Second)},
			available: one, pairs: []string{"ci/urgent=a"}, left: []string{"ci/old"}},
		"the older lease goes first": {
			waiting:   []WaitingLease{waits("ci/young", 3, time.Second), waits("ci/old", 3, time.Hour)},
			available: one, pairs: []string{"ci/old=a"}, left: []string{"ci/young"}},
		"namespace and name decide at last": {
			waiting:   []WaitingLease{waits("ci/b", 0, 0), waits("qe/a", 0, 0), waits("ci/a", 0, 0)},
			available: one, pairs: []string{"ci/a=a"}, left: []string{"ci/b", "qe/a"}},
		"a current instance goes before an older stale one": {
			waiting:   []WaitingLease{waits("ci/x", 0, 0)},
			available: []*v1alpha1.ClusterInstance{spare("stale", "old", time.Hour), spare("new", currentHash, time.Minute)},
			pairs:     []string{"ci/x=new"}},
		"a stale instance is better than none": {
			waiting:   []WaitingLease{waits("ci/x", 0, 0)},
			available: []*v1alpha1.ClusterInstance{spare("stale", "old", time.Hour)},
			pairs:     []string{"ci/x=stale"}},
		"the longest Ready instance goes first": {
			waiting:   []WaitingLease{waits("ci/x", 0, 0)},
			available: []*v1alpha1.ClusterInstance{spare("young", currentHash, time.Minute), spare("old", currentHash, time.Hour)},
			pairs:     []string{"ci/x=old"}},
		"names decide between instances that are equal": {
			waiting:   []WaitingLease{waits("ci/x", 0, 0)},
			available: []*v1alpha1.ClusterInstance{spare("b", currentHash, -1), spare("a", currentHash, -1)},
			pairs:     []string{"ci/x=a"}},
		"best lease and best instance meet": {
			waiting:   []WaitingLease{waits("ci/low", 0, 0), waits("ci/high", 9, 0)},
			available: []*v1alpha1.ClusterInstance{spare("young", currentHash, 0), spare("old", currentHash, time.Hour)},
			pairs:     []string{"ci/high=old", "ci/low=young"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := PairLeases(tt.waiting, tt.available, currentHash)
			var pairs, left []string
			for _, p := range got.Pairs {
				pairs = append(pairs, p.Lease.Namespace+"/"+p.Lease.Name+"="+p.Instance.Name)
			}
			for _, w := range got.Waiting {
				left = append(left, w.Lease.Namespace+"/"+w.Lease.Name)
			}
			if diff := cmp.Diff(tt.pairs, pairs); diff != "" {
				t.Errorf("pairs (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.left, left); diff != "" {
				t.Errorf("waiting (-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever the input: no lease and no instance is in two pairs, nothing is left
// on both sides, and nobody who waits stands before somebody who was served.
func TestPairLeasesInvariants(t *testing.T) {
	for seed := range int64(2000) {
		rng := rand.New(rand.NewSource(seed))
		var waiting []WaitingLease
		for n := range rng.Intn(8) {
			waiting = append(waiting, waits(fmt.Sprintf("ns-%d/lease-%d", rng.Intn(2), n), rng.Int31n(3), time.Duration(rng.Intn(3))*time.Minute))
		}
		var available []*v1alpha1.ClusterInstance
		for n := range rng.Intn(8) {
			available = append(available, spare(fmt.Sprintf("pool-%d", n), []string{currentHash, "old"}[rng.Intn(2)], time.Duration(rng.Intn(3))*time.Minute))
		}
		got := PairLeases(waiting, available, currentHash)
		if len(got.Pairs) != min(len(waiting), len(available)) || len(got.Pairs)+len(got.Waiting) != len(waiting) {
			t.Fatalf("seed %d: %d pairs, %d waiting of %d leases and %d instances", seed, len(got.Pairs), len(got.Waiting), len(waiting), len(available))
		}
		seen := map[any]bool{}
		for _, p := range got.Pairs {
			if seen[p.Lease] || seen[p.Instance] {
				t.Fatalf("seed %d: two pairs share a lease or an instance", seed)
			}
			seen[p.Lease], seen[p.Instance] = true, true
		}
		for _, w := range got.Waiting {
			for _, p := range got.Pairs {
				if served := find(waiting, p.Lease); w.Priority > served.Priority {
					t.Fatalf("seed %d: priority %d waits while %d is served", seed, w.Priority, served.Priority)
				}
			}
		}
	}
}

func TestWithinNamespaceLimit(t *testing.T) {
	queue := []WaitingLease{waits("ci/young", 0, time.Minute), waits("qe/only", 0, 0), waits("ci/old", 0, time.Hour), waits("ci/urgent", 5, 0)}
	tests := map[string]struct {
		limit        int32
		held         map[string]int
		within, over []string
	}{
		"no limit":                            {within: []string{"ci/young", "qe/only", "ci/old", "ci/urgent"}},
		"the first of each namespace":         {limit: 1, within: []string{"ci/urgent", "qe/only"}, over: []string{"ci/old", "ci/young"}},
		"beside what is held":                 {limit: 3, held: map[string]int{"ci": 2}, within: []string{"ci/urgent", "qe/only"}, over: []string{"ci/old", "ci/young"}},
		"nothing for one that holds too many": {limit: 1, held: map[string]int{"ci": 4}, within: []string{"qe/only"}, over: []string{"ci/urgent", "ci/old", "ci/young"}},
		"all within":                          {limit: 3, within: []string{"ci/urgent", "ci/old", "ci/young", "qe/only"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			within, over := WithinNamespaceLimit(tt.limit, tt.held, queue)
			if diff := cmp.Diff([2][]string{tt.within, tt.over}, [2][]string{leaseNames(within), leaseNames(over)}); diff != "" {
				t.Errorf("within and over (-want +got):\n%s", diff)
			}
		})
	}
}

func leaseNames(list []WaitingLease) []string {
	var names []string
	for _, w := range list {
		names = append(names, w.Lease.Namespace+"/"+w.Lease.Name)
	}
	return names
}

func TestHolds(t *testing.T) {
	tests := map[string]struct {
		lease *v1alpha1.ClusterLease
		want  bool
	}{
		"a waiting lease":  {lease: newLease()},
		"a claiming lease": {lease: newLease(names), want: true},
		"a bound lease":    {lease: newLease(boundFor(time.Minute)), want: true},
		"a releasing lease": {want: true, lease: newLease(boundFor(time.Minute), func(l *v1alpha1.ClusterLease) {
			l.MarkReleasing(v1alpha1.ReasonReleased, "")
		})},
		"an ended lease": {lease: newLease(boundFor(time.Minute), endedFor(0))},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Holds(tt.lease); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
}

func find(list []WaitingLease, lease *v1alpha1.ClusterLease) WaitingLease {
	for _, w := range list {
		if w.Lease == lease {
			return w
		}
	}
	return WaitingLease{}
}

func TestEffectivePriority(t *testing.T) {
	tests := map[string]struct {
		wanted int32
		policy *v1alpha1.LeasePolicy
		want   int32
	}{
		"a pool without a policy knows no priority": {wanted: 5},
		"the pool's maximum caps":                   {wanted: 5, policy: &v1alpha1.LeasePolicy{MaxPriority: 3}, want: 3},
		"a lower one is kept":                       {wanted: 2, policy: &v1alpha1.LeasePolicy{MaxPriority: 3}, want: 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			lease := &v1alpha1.ClusterLease{Spec: v1alpha1.ClusterLeaseSpec{Priority: tt.wanted}}
			pool := &v1alpha1.ClusterPool{Spec: v1alpha1.ClusterPoolSpec{Lease: tt.policy}}
			if got := EffectivePriority(lease, pool); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

// busyPool is a pool with three of four instances, two leased.
func busyPool(changes ...func(*v1alpha1.ClusterPool)) *v1alpha1.ClusterPool {
	p := &v1alpha1.ClusterPool{ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: "crc"}}
	p.Spec.MaxSize = 4
	p.Status.TotalInstances, p.Status.LeasedInstances = 3, 2
	for _, change := range changes {
		change(p)
	}
	return p
}

func TestWaitFor(t *testing.T) {
	const numbers = "position 2 of 5; pool clusters/crc has 3 of 4 instances, 2 leased, "
	paused := func(p *v1alpha1.ClusterPool) { p.Spec.Paused = true }
	failing := func(p *v1alpha1.ClusterPool) {
		p.Status.LastFailure = &v1alpha1.FailureStatus{Reason: "RunFailed", Run: "r", Task: "boot"}
		p.MarkHealthy(v1alpha1.Verdict{Reason: v1alpha1.ReasonBreakerOpen})
	}
	provisioning := func(p *v1alpha1.ClusterPool) { p.Status.ProvisioningInstances = 1 }
	disabled := func(p *v1alpha1.ClusterPool) {
		p.MarkAllowed(v1alpha1.Verdict{Reason: v1alpha1.ReasonNamespaceDisabled, Message: "no label"})
	}
	full := func(p *v1alpha1.ClusterPool) { p.MarkCapacity(v1alpha1.Verdict{Reason: v1alpha1.ReasonAtCapacity}) }
	tooSmall := func(p *v1alpha1.ClusterPool) {
		p.MarkCapacity(v1alpha1.Verdict{Reason: v1alpha1.ReasonMaxSizeTooSmall})
	}

	tests := map[string]struct {
		pool    *v1alpha1.ClusterPool
		reason  v1alpha1.Reason
		message string
	}{
		"an instance is on its way": {
			pool: busyPool(provisioning), reason: v1alpha1.ReasonWaitingForCapacity,
			message: "waiting for an instance; " + numbers + "1 provisioning"},
		"the pool is paused": {
			pool: busyPool(paused, failing, full), reason: v1alpha1.ReasonPoolPaused,
			message: "the pool is paused and has no Ready instance: ask its owner to set spec.paused to false; " + numbers + "0 provisioning"},
		"the breaker is open": {
			pool: busyPool(failing, full), reason: v1alpha1.ReasonProvisioningFailing,
			message: "provisioning fails: RunFailed in run r, task boot; " + numbers + "0 provisioning"},
		"the breaker is open and lets one through": {
			pool: busyPool(failing, provisioning), reason: v1alpha1.ReasonWaitingForCapacity,
			message: "waiting for an instance; " + numbers + "1 provisioning"},
		"the pool's namespace did not opt in": {
			pool: busyPool(disabled, full), reason: v1alpha1.ReasonPoolNotProvisioning,
			message: "the pool may not make instances: no label; " + numbers + "0 provisioning"},
		"every slot is in use": {
			pool: busyPool(full), reason: v1alpha1.ReasonAtCapacity,
			message: "every slot of the pool is in use: wait for a release or raise maxSize; " + numbers + "0 provisioning"},
		"the pool is too small for its spares, which is not the lease's business": {
			pool: busyPool(tooSmall), reason: v1alpha1.ReasonWaitingForCapacity,
			message: "waiting for an instance; " + numbers + "0 provisioning"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			want := Wait{Reason: tt.reason, Message: tt.message, Position: 2}
			if diff := cmp.Diff(want, WaitFor(tt.pool, 2, 5)); diff != "" {
				t.Errorf("wait (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTellWait(t *testing.T) {
	said := func(w Wait, age time.Duration) *v1alpha1.ClusterLease {
		l := &v1alpha1.ClusterLease{}
		l.MarkWaiting(w.Reason, w.Message, w.Position, metav1.Time{Time: ago(age)})
		return l
	}
	second := Wait{Reason: v1alpha1.ReasonAtCapacity, Message: "position 2", Position: 2}
	first := Wait{Reason: v1alpha1.ReasonAtCapacity, Message: "position 1", Position: 1}
	other := Wait{Reason: v1alpha1.ReasonPoolPaused, Message: "position 2", Position: 2}
	unqueued := Wait{Reason: v1alpha1.ReasonAtCapacity, Message: "not queued"}

	tests := map[string]struct {
		lease *v1alpha1.ClusterLease
		wait  Wait
		tell  bool
		later time.Duration
	}{
		"a new lease is told at once":               {lease: &v1alpha1.ClusterLease{}, wait: second, tell: true},
		"a new reason is told at once":              {lease: said(second, time.Second), wait: other, tell: true},
		"the same is not told again":                {lease: said(second, time.Hour), wait: second},
		"a new position waits for its interval":     {lease: said(second, 10*time.Second), wait: first, later: 20 * time.Second},
		"a new position is told after its interval": {lease: said(second, QueueInterval), wait: first, tell: true},
		"the first position is told at once":        {lease: said(unqueued, 0), wait: first, tell: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tell, later := TellWait(tt.lease, tt.wait, noon)
			if tell != tt.tell || later != tt.later {
				t.Errorf("got %t, later %s; want %t, later %s", tell, later, tt.tell, tt.later)
			}
		})
	}
}

func TestAvailable(t *testing.T) {
	pool := &v1alpha1.ClusterPool{ObjectMeta: metav1.ObjectMeta{Name: "pool", UID: "pool-uid"}}
	slot := int32(0)
	instance := func(changes ...func(*v1alpha1.ClusterInstance)) *v1alpha1.ClusterInstance {
		i := spare("pool-0", currentHash, time.Hour)
		i.Spec.PoolRef = &v1alpha1.OwnerPool{Name: "pool", UID: pool.UID}
		i.Spec.Slot = &slot
		i.MarkProvisioned("4.19.3")
		i.MarkReachable(metav1.Time{Time: noon})
		for _, change := range changes {
			change(i)
		}
		return i
	}
	old := func(i *v1alpha1.ClusterInstance) { i.Annotations[guestcluster.TemplateHashAnnotation] = "old" }
	tests := map[string]struct {
		instance *v1alpha1.ClusterInstance
		strategy v1alpha1.UpdateStrategy
		want     bool
	}{
		"a Ready instance":                  {instance: instance(), want: true},
		"a standalone one is nobody's":      {instance: instance(func(i *v1alpha1.ClusterInstance) { i.Spec.PoolRef = nil })},
		"one slipped in beside the slots":   {instance: instance(func(i *v1alpha1.ClusterInstance) { i.Name = "pool-x" })},
		"one of an older pool of that name": {instance: instance(func(i *v1alpha1.ClusterInstance) { i.Spec.PoolRef.UID = "older" })},
		"a claimed one": {instance: instance(func(i *v1alpha1.ClusterInstance) {
			i.Spec.ClaimRef = &v1alpha1.ClaimReference{LeaseUID: types.UID("l")}
		})},
		"one that is being deleted":             {instance: instance(func(i *v1alpha1.ClusterInstance) { i.DeletionTimestamp = ptrTime(noon) })},
		"an unreachable one":                    {instance: instance(func(i *v1alpha1.ClusterInstance) { i.MarkUnreachable(v1alpha1.ReasonGuestAPIUnreachable, "") })},
		"a failed one":                          {instance: instance(func(i *v1alpha1.ClusterInstance) { i.MarkFailed(v1alpha1.FailureStatus{Reason: "RunFailed"}) })},
		"a stale one with OnReplenish":          {instance: instance(old), strategy: v1alpha1.UpdateOnReplenish, want: true},
		"a stale one with Recreate":             {instance: instance(old), strategy: v1alpha1.UpdateRecreate},
		"a current one of a pool with Recreate": {instance: instance(), strategy: v1alpha1.UpdateRecreate, want: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pool := pool.DeepCopy()
			pool.Spec.UpdateStrategy = tt.strategy
			if got := Available(pool, tt.instance, currentHash); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
}

func BenchmarkPairLeases(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		var waiting []WaitingLease
		for i := range n {
			waiting = append(waiting, waits(fmt.Sprintf("ci/lease-%d", i), int32(i%3), time.Duration(i)*time.Second))
		}
		available := []*v1alpha1.ClusterInstance{spare("pool-0", currentHash, time.Hour)}
		b.Run(fmt.Sprintf("%d leases", n), func(b *testing.B) {
			for b.Loop() {
				PairLeases(waiting, available, currentHash)
			}
		})
	}
}
