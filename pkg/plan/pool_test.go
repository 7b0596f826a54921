package plan

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return noon.Add(-d) }

// inSlot is an instance that was just created; kinds change it.
func inSlot(slot int32, kinds ...func(*PoolInstance)) PoolInstance {
	i := PoolInstance{
		Name: v1alpha1.InstanceName("pool", slot), UID: types.UID(fmt.Sprintf("uid-%03d", slot)),
		ResourceVersion: "7", Slot: slot,
	}
	for _, change := range kinds {
		change(&i)
	}
	return i
}

func readySince(age time.Duration) func(*PoolInstance) {
	return func(i *PoolInstance) { i.Ready, i.Provisioned, i.ReadyTime = true, true, ago(age) }
}

func failedSince(age time.Duration) func(*PoolInstance) {
	return func(i *PoolInstance) {
		i.Failed, i.Ready = true, false
		i.Failure = &v1alpha1.FailureStatus{Instance: i.Name, InstanceUID: i.UID, Reason: "RunFailed", Time: metav1.Time{Time: ago(age)}}
	}
}

func ready(i *PoolInstance)       { readySince(time.Hour)(i) }
func unreachable(i *PoolInstance) { ready(i); i.Ready = false }
func claimed(i *PoolInstance)     { ready(i); i.Claimed = true }
func named(i *PoolInstance)       { ready(i); i.Named = true }
func stale(i *PoolInstance)       { i.Stale = true }
func deleting(i *PoolInstance)    { i.Deleting = true }
func foreign(i *PoolInstance)     { i.Foreign = true }
func failed(i *PoolInstance)      { failedSince(time.Minute)(i) }

// supply is a pool of maxSize 5 that wants two spares.
func supply(spec func(*v1alpha1.ClusterPoolSpec), instances ...PoolInstance) PoolFacts {
	f := PoolFacts{
		Spec: v1alpha1.ClusterPoolSpec{
			Type: v1alpha1.TypeCustom, WarmSpares: 2, MaxSize: 5, MaxConcurrent: 3, UpdateStrategy: v1alpha1.UpdateOnReplenish,
		},
		Instances: instances,
		Allowed:   v1alpha1.Verdict{OK: true, Reason: v1alpha1.ReasonNamespaceEnabled},
	}
	if spec != nil {
		spec(&f.Spec)
	}
	return f
}

func (f PoolFacts) waiting(n int) PoolFacts {
	f.Pending = n
	return f
}

func (f PoolFacts) surplusFor(d time.Duration) PoolFacts {
	f.Status.SurplusSince = ptrTime(ago(d))
	return f
}

// afterFailures is a pool that has counted failures, the last of them some time ago.
func (f PoolFacts) afterFailures(n int32, age time.Duration) PoolFacts {
	f.Status.ConsecutiveFailures = n
	f.Status.LastFailure = &v1alpha1.FailureStatus{InstanceUID: "uid-999", Reason: "RunFailed", Time: metav1.Time{Time: ago(age)}}
	return f
}

func (f PoolFacts) forbidden() PoolFacts {
	f.Allowed = v1alpha1.Verdict{Reason: v1alpha1.ReasonNamespaceDisabled, Message: "no label"}
	return f
}

const (
	whySurplus  = "the pool has more spares than wanted"
	whyStale    = "its template is stale"
	whyRecreate = "its template is stale and updateStrategy is Recreate"
	whyOverAge  = "it is older than spareMaxAge"
	whyVacate   = "it failed and its slot is wanted"
	whyHourOld  = "failed an hour ago"
)

func TestPoolSupply(t *testing.T) {
	type spec = v1alpha1.ClusterPoolSpec
	recreate := func(s *spec) { s.UpdateStrategy = v1alpha1.UpdateRecreate }
	paused := func(s *spec) { s.Paused = true }
	noSpares := func(s *spec) { s.WarmSpares = 0 }
	oneSpare := func(s *spec) { s.WarmSpares = 1 }
	full := func(s *spec) { s.WarmSpares, s.MaxSize = 2, 2 }
	smaller := func(s *spec) { s.WarmSpares, s.MaxSize = 1, 3 }
	monthOld := readySince(31 * 24 * time.Hour)

	tests := map[string]struct {
		facts  PoolFacts
		create []int32
		remove []string
	}{
		"an empty pool makes its spares in the lowest slots": {
			facts: supply(nil), create: []int32{0, 1}},
		"spares come on top of what is leased": {
			facts: supply(nil, inSlot(0, claimed), inSlot(1, claimed)), create: []int32{2, 3}},
		"a waiting lease adds to the spares": {
			facts: supply(nil, inSlot(0, ready), inSlot(1, ready)).waiting(1), create: []int32{2}},
		"minSize holds when nothing else asks for as much": {
			facts: supply(func(s *spec) { s.WarmSpares, s.MinSize = 0, 3 }), create: []int32{0, 1, 2}},
		"minSize counts leased instances": {
			facts: supply(func(s *spec) { s.WarmSpares, s.MinSize = 0, 3 }, inSlot(0, claimed), inSlot(1, claimed)), create: []int32{2}},
		"a gap is filled before a higher slot": {
			facts: supply(nil, inSlot(0, claimed), inSlot(2, claimed)), create: []int32{1, 3}},
		"demand beyond maxSize is capped": {
			facts: supply(nil, inSlot(0, ready), inSlot(1, ready), inSlot(2, ready)).waiting(50), create: []int32{3, 4}},
		"an unreachable instance still counts as supply": {
			facts: supply(nil, inSlot(0, unreachable), inSlot(1, ready))},
		"maxConcurrent counts those that provision already": {
			facts:  supply(func(s *spec) { s.MaxConcurrent = 2 }, inSlot(0)).waiting(5),
			create: []int32{1}},
		"nothing starts when maxConcurrent is used up": {
			facts: supply(func(s *spec) { s.MaxConcurrent = 1 }, inSlot(0)).waiting(5)},
		"an unset maxConcurrent means one": {
			facts: supply(func(s *spec) { s.MaxConcurrent = 0 }), create: []int32{0}},
		"a terminating instance keeps its slot": {
			facts: supply(nil, inSlot(0, ready, deleting), inSlot(1, ready)), create: []int32{2}},
		"a terminating instance keeps its slot of a full pool": {
			facts: supply(full, inSlot(0, ready, deleting), inSlot(1, ready))},
		"a foreign object keeps its slot and is left alone": {
			facts: supply(nil, inSlot(0, ready, foreign)), create: []int32{1, 2}},
		"a foreign object of a full pool is left alone": {
			facts: supply(full, inSlot(0, failed, foreign), inSlot(1, ready)).waiting(1)},

		"a paused pool makes nothing": {
			facts: supply(paused).waiting(2)},
		"a paused pool keeps its surplus": {
			facts: supply(paused, inSlot(0, ready), inSlot(1, ready), inSlot(2, ready)).surplusFor(time.Hour)},
		"a paused pool keeps stale spares": {
			facts: supply(func(s *spec) { paused(s); recreate(s) }, inSlot(0, ready, stale))},
		"a paused pool removes what failed an hour ago": {
			facts:  supply(paused, inSlot(0, failedSince(time.Hour))),
			remove: []string{"pool-0: " + whyHourOld}},
		"a pool that may not provision makes nothing": {
			facts: supply(nil).waiting(1).forbidden()},
		"a pool that may not provision still scales down": {
			facts:  supply(noSpares, inSlot(0, ready)).surplusFor(2 * time.Minute).forbidden(),
			remove: []string{"pool-0: " + whySurplus}},
		"a pool that may not provision keeps what it could not replace": {
			facts: supply(oneSpare, inSlot(0, ready, stale)).forbidden()},

		"a surplus is kept for two minutes": {
			facts: supply(oneSpare, inSlot(0, ready), inSlot(1, ready)).surplusFor(119 * time.Second)},
		"a surplus is kept when it was just noticed": {
			facts: supply(oneSpare, inSlot(0, ready), inSlot(1, ready))},
		"a surplus goes after two minutes": {
			facts:  supply(oneSpare, inSlot(0, ready), inSlot(1, ready)).surplusFor(2 * time.Minute),
			remove: []string{"pool-1: " + whySurplus}},
		"the newest spare goes first": {
			facts:  supply(oneSpare, inSlot(0, readySince(time.Minute)), inSlot(1, readySince(time.Hour))).surplusFor(time.Hour),
			remove: []string{"pool-0: " + whySurplus}},
		"a stale spare goes before the newest": {
			facts:  supply(oneSpare, inSlot(0, readySince(time.Minute)), inSlot(1, readySince(time.Hour), stale)).waiting(0).surplusFor(time.Hour).forbidden(),
			remove: []string{"pool-1: " + whySurplus}},
		"a spare beyond a lowered maxSize goes before a stale one": {
			facts: supply(smaller, inSlot(0, ready, stale), inSlot(1, claimed), inSlot(3, readySince(100*time.Hour))).
				surplusFor(time.Hour).forbidden(),
			remove: []string{"pool-3: " + whySurplus}},
		"a surplus that still provisions is not interrupted": {
			facts: supply(noSpares, inSlot(0)).surplusFor(time.Hour)},
		"a spare that a lease names is no surplus": {
			facts: supply(noSpares, inSlot(0, named)).surplusFor(time.Hour)},
		"a leased instance beyond a lowered maxSize stays": {
			facts: supply(smaller, inSlot(3, claimed), inSlot(4, claimed), inSlot(2, claimed)).surplusFor(time.Hour).waiting(1)},
		"a stale spare that is replaced is not also counted as surplus": {
			facts:  supply(func(s *spec) { oneSpare(s); recreate(s) }, inSlot(0, ready), inSlot(1, ready, stale)).surplusFor(time.Hour),
			remove: []string{"pool-1: " + whyRecreate}},
		"a lowered maxSize is not exceeded while old instances go": {
			facts: supply(smaller, inSlot(3, claimed), inSlot(4, claimed), inSlot(0, ready, deleting)).waiting(2)},

		"a Failed object stays while its slot is not wanted": {
			facts: supply(nil, inSlot(0, failed)), create: []int32{1, 2}},
		"a Failed object makes room when its slot is wanted": {
			facts:  supply(full, inSlot(0, failed), inSlot(1, ready)),
			remove: []string{"pool-0: " + whyVacate}},
		"only as many Failed objects go as slots are wanted, oldest first": {
			facts: supply(func(s *spec) { s.WarmSpares, s.MaxSize = 1, 2 },
				inSlot(0, failedSince(time.Minute)), inSlot(1, failedSince(2*time.Minute))),
			remove: []string{"pool-1: " + whyVacate}},
		"a Failed object goes after an hour": {
			facts:  supply(noSpares, inSlot(0, failedSince(time.Hour))),
			remove: []string{"pool-0: " + whyHourOld}},
		"a Failed object beyond a lowered maxSize makes room too": {
			facts:  supply(smaller, inSlot(0, claimed), inSlot(3, failed), inSlot(4, claimed)).waiting(1),
			remove: []string{"pool-3: " + whyVacate}},
		"a Failed leased instance is left to its lease": {
			facts: supply(noSpares, inSlot(0, claimed, failedSince(2*time.Hour)))},
		"a Failed object makes no room while the breaker pauses": {
			facts: supply(full, inSlot(0, failedSince(10*time.Second)), inSlot(1, failedSince(20*time.Second))).afterFailures(2, time.Minute)},

		"a stale spare is replaced when nothing waits": {
			facts:  supply(oneSpare, inSlot(0, ready, stale)),
			remove: []string{"pool-0: " + whyStale}},
		"stale spares are replaced one at a time": {
			facts:  supply(nil, inSlot(0, ready, stale), inSlot(1, ready, stale)),
			remove: []string{"pool-0: " + whyStale}},
		"the next stale spare stays until the last one is gone": {
			facts: supply(nil, inSlot(0, ready, stale, deleting), inSlot(1, ready, stale)), create: []int32{2}},
		"the next stale spare stays until its replacement is Ready": {
			facts: supply(nil, inSlot(0), inSlot(1, ready, stale))},
		"a stale spare stays while a lease waits": {
			facts: supply(func(s *spec) { s.WarmSpares, s.MaxSize = 0, 1 }, inSlot(0, ready, stale)).waiting(1)},
		"a stale spare stays while the breaker is open": {
			facts: supply(oneSpare, inSlot(0, readySince(time.Hour), stale)).afterFailures(3, time.Second)},
		"a stale instance that was never Ready goes at once": {
			facts:  supply(oneSpare, inSlot(0, stale)),
			remove: []string{"pool-0: its template is stale and it was never Ready"}},
		"Recreate replaces every stale spare at once": {
			facts:  supply(recreate, inSlot(0, ready, stale), inSlot(1, ready, stale)).waiting(2),
			create: []int32{2, 3},
			remove: []string{"pool-0: " + whyRecreate, "pool-1: " + whyRecreate}},
		"Recreate interrupts a stale instance that provisions": {
			facts:  supply(func(s *spec) { oneSpare(s); recreate(s) }, inSlot(0, stale)),
			remove: []string{"pool-0: " + whyRecreate}},
		"Recreate leaves leased and named instances alone": {
			facts:  supply(func(s *spec) { noSpares(s); recreate(s) }, inSlot(0, claimed, stale), inSlot(1, named, stale)),
			create: nil},
		"a crc spare older than 20 days is replaced": {
			facts:  supply(func(s *spec) { oneSpare(s); s.Type = v1alpha1.TypeCRC }, inSlot(0, monthOld)),
			remove: []string{"pool-0: " + whyOverAge}},
		"a custom spare has no age by default": {
			facts: supply(oneSpare, inSlot(0, monthOld))},
		"spareMaxAge holds for every topology": {
			facts: supply(func(s *spec) {
				oneSpare(s)
				s.SpareMaxAge = &v1alpha1.Duration{Duration: metav1.Duration{Duration: time.Hour}}
			}, inSlot(0, readySince(time.Hour))),
			remove: []string{"pool-0: " + whyOverAge}},
		"a leased instance has no age": {
			facts:  supply(func(s *spec) { noSpares(s); s.Type = v1alpha1.TypeCRC }, inSlot(0, claimed, monthOld)),
			create: nil},

		"an open breaker makes nothing in its pause": {
			facts: supply(nil).afterFailures(3, 29*time.Second)},
		"a half-open breaker lets one instance through": {
			facts: supply(nil).afterFailures(3, 30*time.Second), create: []int32{0}},
		"a half-open breaker waits for its one instance": {
			facts: supply(nil, inSlot(0)).afterFailures(3, time.Hour)},
		"failures below the limit change nothing": {
			facts: supply(nil).afterFailures(2, time.Second), create: []int32{0, 1}},
		"an instance that became Ready closes the breaker": {
			facts: supply(nil, inSlot(0, readySince(time.Second))).afterFailures(7, time.Minute), create: []int32{1}},
		"retryLimit sets the limit": {
			facts: supply(func(s *spec) { s.Provisioning = &v1alpha1.Provisioning{RetryLimit: 1} }).afterFailures(1, time.Second)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := Pool(tt.facts, noon)
			var removed []string
			for _, d := range got.Delete {
				removed = append(removed, d.Name+": "+d.Why)
			}
			if diff := cmp.Diff(tt.create, got.Create); diff != "" {
				t.Errorf("create (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.remove, removed); diff != "" {
				t.Errorf("delete (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPoolDeletesWhatItHasRead(t *testing.T) {
	got := Pool(supply(func(s *v1alpha1.ClusterPoolSpec) { s.WarmSpares = 0 }, inSlot(3, failedSince(time.Hour))), noon)
	want := []Deletion{{Name: "pool-3", UID: "uid-003", ResourceVersion: "7", Why: whyHourOld}}
	if diff := cmp.Diff(want, got.Delete); diff != "" {
		t.Errorf("delete (-want +got):\n%s", diff)
	}
}

// A cache that lags behind shows fewer objects, never others: the plan asks for
// the same slot again, which the API server refuses.
func TestPoolAsksForTheSameSlotFromAStaleCache(t *testing.T) {
	fresh := supply(nil, inSlot(0, claimed), inSlot(1), inSlot(2))
	for name, lagging := range map[string]PoolFacts{
		"the cache has not seen the last creation": supply(nil, inSlot(0, claimed), inSlot(1)),
		"the cache has seen no creation":           supply(nil, inSlot(0, claimed)),
	} {
		t.Run(name, func(t *testing.T) {
			for _, slot := range Pool(lagging, noon).Create {
				if int(slot) >= len(fresh.Instances) {
					t.Errorf("slot %d is new: a stale cache must meet AlreadyExists", slot)
				}
			}
		})
	}
}

func TestPoolLooksAgain(t *testing.T) {
	type spec = v1alpha1.ClusterPoolSpec
	tests := map[string]struct {
		facts PoolFacts
		want  time.Duration
	}{
		"never when only events can change the plan": {
			facts: supply(nil, inSlot(0, ready), inSlot(1, ready))},
		"when the surplus is two minutes old": {
			facts: supply(nil, inSlot(0, ready), inSlot(1, ready), inSlot(2, ready)).surplusFor(30 * time.Second), want: 90 * time.Second},
		"when a Failed object is an hour old": {
			facts: supply(nil, inSlot(0, ready), inSlot(1, ready), inSlot(2, failedSince(50*time.Minute))), want: 10 * time.Minute},
		"when the breaker's pause is over": {
			facts: supply(nil).afterFailures(4, 10*time.Second), want: 50 * time.Second},
		"when a spare gets too old": {
			facts: supply(func(s *spec) { s.Type = v1alpha1.TypeCRC }, inSlot(0, readySince(479*time.Hour)), inSlot(1, ready)), want: time.Hour},
		"at the earliest of them": {
			facts: supply(nil, inSlot(0, ready), inSlot(1, ready), inSlot(2, ready), inSlot(3, failedSince(59*time.Minute))).surplusFor(time.Minute + 30*time.Second),
			want:  30 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Pool(tt.facts, noon).LookAgain; got != tt.want {
				t.Errorf("look again after %s, want %s", got, tt.want)
			}
		})
	}
}

// lastFailed is a pool whose first instance failed last, as the n-th in a row.
func lastFailed(f PoolFacts, n int32) PoolFacts {
	f.Status.ConsecutiveFailures, f.Status.LastFailure = n, f.Instances[0].Failure
	return f
}

func TestPoolBreaker(t *testing.T) {
	type outcome struct {
		Failures int32
		Next     time.Duration // from noon; zero while closed
		Healthy  v1alpha1.Reason
		Last     types.UID
	}
	tests := map[string]struct {
		facts PoolFacts
		want  outcome
	}{
		"a pool without failures is healthy": {
			facts: supply(nil), want: outcome{Healthy: v1alpha1.ReasonProvisioningHealthy}},
		"every new failure counts": {
			facts: supply(nil, inSlot(0, failedSince(3*time.Second)), inSlot(1, failedSince(2*time.Second))),
			want:  outcome{Failures: 2, Healthy: v1alpha1.ReasonProvisioningHealthy, Last: "uid-001"}},
		"failures of one second are told apart": {
			facts: supply(nil, inSlot(0, failedSince(time.Second)), inSlot(1, failedSince(time.Second))),
			want:  outcome{Failures: 2, Healthy: v1alpha1.ReasonProvisioningHealthy, Last: "uid-001"}},
		"the limit opens the breaker for half a minute": {
			facts: supply(nil, inSlot(0, failedSince(5*time.Second))).afterFailures(2, time.Minute),
			want:  outcome{Failures: 3, Next: 25 * time.Second, Healthy: v1alpha1.ReasonBreakerOpen, Last: "uid-000"}},
		"each further failure doubles the pause": {
			facts: supply(nil, inSlot(0, failedSince(0))).afterFailures(4, time.Minute),
			want:  outcome{Failures: 5, Next: 2 * time.Minute, Healthy: v1alpha1.ReasonBreakerOpen, Last: "uid-000"}},
		"the pause never exceeds ten minutes": {
			facts: supply(nil).afterFailures(5000, 0),
			want:  outcome{Failures: 5000, Next: 10 * time.Minute, Healthy: v1alpha1.ReasonBreakerOpen, Last: "uid-999"}},
		"a later Ready resets the count": {
			facts: supply(nil, inSlot(0, readySince(time.Second))).afterFailures(9, time.Minute),
			want:  outcome{Healthy: v1alpha1.ReasonProvisioningHealthy, Last: "uid-999"}},
		"an earlier Ready does not": {
			facts: supply(nil, inSlot(0, readySince(time.Hour))).afterFailures(2, time.Minute),
			want:  outcome{Failures: 2, Healthy: v1alpha1.ReasonProvisioningHealthy, Last: "uid-999"}},
		"only failures after the last Ready count": {
			facts: supply(nil, inSlot(0, failedSince(3*time.Second)), inSlot(1, readySince(2*time.Second)), inSlot(2, failedSince(time.Second))),
			want:  outcome{Failures: 1, Healthy: v1alpha1.ReasonProvisioningHealthy, Last: "uid-002"}},
		"the failure of a foreign object does not count": {
			facts: supply(nil, inSlot(0, failed, foreign)), want: outcome{Healthy: v1alpha1.ReasonProvisioningHealthy}},
		"a failure of an object that is being deleted counts": {
			facts: supply(nil, inSlot(0, failed, deleting)),
			want:  outcome{Failures: 1, Healthy: v1alpha1.ReasonProvisioningHealthy, Last: "uid-000"}},
		"a template that changed since the last failure closes the breaker": {
			facts: lastFailed(supply(nil, inSlot(0, failed, stale)), 7),
			want:  outcome{Healthy: v1alpha1.ReasonProvisioningHealthy, Last: "uid-000"}},
		"the same template does not": {
			facts: lastFailed(supply(nil, inSlot(0, failed)), 7),
			want:  outcome{Failures: 7, Next: 7 * time.Minute, Healthy: v1alpha1.ReasonBreakerOpen, Last: "uid-000"}},
		"a failure of the older template adds nothing": {
			facts: supply(nil, inSlot(0, failedSince(time.Second), stale)).afterFailures(2, time.Minute),
			want:  outcome{Failures: 2, Healthy: v1alpha1.ReasonProvisioningHealthy, Last: "uid-000"}},
		"a late failure of the older template does not close the breaker": {
			facts: lastFailed(supply(nil, inSlot(0, failed, stale), inSlot(1, failedSince(2*time.Minute))), 3),
			want:  outcome{Failures: 3, Healthy: v1alpha1.ReasonBreakerOpen, Next: -30 * time.Second, Last: "uid-000"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			plan := Pool(tt.facts, noon)
			got := outcome{Failures: plan.Status.ConsecutiveFailures, Healthy: plan.Healthy.Reason}
			if plan.Status.LastFailure != nil {
				got.Last = plan.Status.LastFailure.InstanceUID
			}
			if plan.Status.NextAttemptTime != nil {
				got.Next = plan.Status.NextAttemptTime.Sub(noon)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("breaker (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPoolCountsAFailureOnce(t *testing.T) {
	f := supply(nil, inSlot(0, failedSince(2*time.Second)), inSlot(1, failedSince(time.Second)))
	for pass := range 5 {
		f.Status = Pool(f, noon).Status
		if f.Status.ConsecutiveFailures != 2 {
			t.Fatalf("pass %d: %d failures, want 2", pass, f.Status.ConsecutiveFailures)
		}
	}
	f.Instances = f.Instances[:1]
	if f.Status = Pool(f, noon).Status; f.Status.ConsecutiveFailures != 2 {
		t.Errorf("%d failures after the newest Failed object is gone, want 2", f.Status.ConsecutiveFailures)
	}
}

func TestPoolCounts(t *testing.T) {
	f := supply(func(s *v1alpha1.ClusterPoolSpec) { s.UpdateStrategy = v1alpha1.UpdateRecreate; s.MaxSize = 20 },
		inSlot(0, claimed), inSlot(1, claimed, func(i *PoolInstance) { i.Ready = false }), inSlot(2, ready), inSlot(3, named),
		inSlot(4, ready, stale), inSlot(5, unreachable), inSlot(6), inSlot(7, failed), inSlot(8, claimed, deleting),
		inSlot(9, failed, deleting), inSlot(10, ready, foreign)).waiting(4)
	got := Pool(f, noon).Status
	want := v1alpha1.ClusterPoolStatus{
		TotalInstances: 10, ReadyInstances: 4, AvailableInstances: 1, LeasedInstances: 2,
		ProvisioningInstances: 1, TerminatingInstances: 2, FailedInstances: 1, PendingLeases: 4,
		ConsecutiveFailures: 2, LastFailure: f.Instances[9].Failure,
	}
	got.SurplusSince = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestPoolSurplusSince(t *testing.T) {
	three := []PoolInstance{inSlot(0, ready), inSlot(1, ready), inSlot(2, ready)}
	tests := map[string]struct {
		facts PoolFacts
		want  *metav1.Time
	}{
		"begins when the surplus is seen":    {facts: supply(nil, three...), want: ptrTime(noon)},
		"stays while the surplus lasts":      {facts: supply(nil, three...).surplusFor(time.Minute), want: ptrTime(ago(time.Minute))},
		"ends with the surplus":              {facts: supply(nil, three[:2]...).surplusFor(time.Minute)},
		"ends when a lease takes the spare":  {facts: supply(nil, three...).waiting(1).surplusFor(time.Minute)},
		"does not begin with foreign things": {facts: supply(nil, inSlot(0, ready), inSlot(1, ready), inSlot(2, ready, foreign))},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Pool(tt.facts, noon).Status.SurplusSince); diff != "" {
				t.Errorf("surplusSince (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPoolVerdicts(t *testing.T) {
	type spec = v1alpha1.ClusterPoolSpec
	two := func(s *spec) { s.WarmSpares, s.MaxSize = 1, 2 }
	type verdicts struct{ Capacity, Healthy, Current, Allowed v1alpha1.Reason }
	good := verdicts{v1alpha1.ReasonCapacitySufficient, v1alpha1.ReasonProvisioningHealthy, v1alpha1.ReasonAllCurrent, v1alpha1.ReasonNamespaceEnabled}
	with := func(change func(*verdicts)) verdicts {
		v := good
		change(&v)
		return v
	}
	atCapacity := with(func(v *verdicts) { v.Capacity = v1alpha1.ReasonAtCapacity })
	tooSmall := with(func(v *verdicts) { v.Capacity = v1alpha1.ReasonMaxSizeTooSmall })

	tests := map[string]struct {
		facts PoolFacts
		want  verdicts
	}{
		"all is well":                                                          {facts: supply(nil), want: good},
		"leases wait and no slot is free":                                      {facts: supply(two, inSlot(0, claimed), inSlot(1)).waiting(1), want: atCapacity},
		"a lease waits that a spare can serve":                                 {facts: supply(two, inSlot(0, claimed), inSlot(1, ready)).waiting(1), want: good},
		"leases wait and a slot is free":                                       {facts: supply(two, inSlot(0, claimed)).waiting(3), want: good},
		"a foreign object takes the last slot":                                 {facts: supply(two, inSlot(0, claimed), inSlot(1, foreign)).waiting(1), want: atCapacity},
		"no lease waits and no slot is free":                                   {facts: supply(two, inSlot(0, claimed), inSlot(1)), want: good},
		"an object beyond maxSize takes no slot":                               {facts: supply(two, inSlot(0, ready, foreign), inSlot(7, ready, foreign)).waiting(1), want: good},
		"leased and spares exceed maxSize":                                     {facts: supply(two, inSlot(0, claimed), inSlot(1, claimed)), want: tooSmall},
		"leases that wait hear of AtCapacity before that maxSize is too small": {facts: supply(two, inSlot(0, claimed), inSlot(1, claimed)).waiting(9), want: atCapacity},
		"the breaker is open":                                                  {facts: supply(nil).afterFailures(3, 0), want: with(func(v *verdicts) { v.Healthy = v1alpha1.ReasonBreakerOpen })},
		"a spare is stale":                                                     {facts: supply(nil, inSlot(0, ready, stale)), want: with(func(v *verdicts) { v.Current = v1alpha1.ReasonStaleInstances })},
		"a leased instance may be stale":                                       {facts: supply(nil, inSlot(0, claimed, stale)), want: good},
		"the namespace did not opt in":                                         {facts: supply(nil).forbidden(), want: with(func(v *verdicts) { v.Allowed = v1alpha1.ReasonNamespaceDisabled })},
		"instances beyond maxSize use up its budget":                           {facts: supply(two, inSlot(3, claimed), inSlot(4, deleting)).waiting(1), want: atCapacity},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := Pool(tt.facts, noon)
			got := verdicts{p.Capacity.Reason, p.Healthy.Reason, p.Current.Reason, p.Allowed.Reason}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("verdicts (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPoolInvariants plans for random facts, carries the plan out and looks at
// what must hold whatever the facts were.
func TestPoolInvariants(t *testing.T) {
	for seed := range int64(20000) {
		rng := rand.New(rand.NewSource(seed))
		f := randomFacts(rng)
		p := Pool(f, noon)
		if problem := broken(f, p); problem != "" {
			t.Fatalf("seed %d: %s\nfacts %+v\ncreate %v\ndelete %+v", seed, problem, f, p.Create, p.Delete)
		}
	}
}

func broken(f PoolFacts, p PoolPlan) string {
	occupied, inBudget := map[int32]bool{}, 0
	byName := map[string]PoolInstance{}
	for _, i := range f.Instances {
		occupied[i.Slot], byName[i.Name] = true, i
		if !i.Foreign || i.Slot < f.Spec.MaxSize {
			inBudget++
		}
	}
	for n, slot := range p.Create {
		switch {
		case occupied[slot]:
			return fmt.Sprintf("creates slot %d, which is not free", slot)
		case slot < 0 || slot >= f.Spec.MaxSize:
			return fmt.Sprintf("creates slot %d beyond maxSize %d", slot, f.Spec.MaxSize)
		case n > 0 && slot <= p.Create[n-1]:
			return "does not create lowest slots first"
		}
		occupied[slot] = true
	}
	if len(p.Create) > 0 && inBudget+len(p.Create) > int(f.Spec.MaxSize) {
		return fmt.Sprintf("%d objects exceed maxSize %d", inBudget+len(p.Create), f.Spec.MaxSize)
	}
	if len(p.Create) > 0 && int(p.Status.ProvisioningInstances)+len(p.Create) > int(f.Spec.MaxConcurrent) {
		return "exceeds maxConcurrent"
	}
	if len(p.Create) > 0 && (f.Spec.Paused || !f.Allowed.OK) {
		return "creates while paused or not allowed"
	}
	return brokenDeletion(p.Delete, byName)
}

func brokenDeletion(list []Deletion, byName map[string]PoolInstance) string {
	seen := map[string]bool{}
	for _, d := range list {
		i, known := byName[d.Name]
		switch {
		case !known || seen[d.Name]:
			return "deletes " + d.Name + " twice or out of nowhere"
		case i.Claimed:
			return "deletes claimed " + d.Name
		case i.Named:
			return "deletes " + d.Name + ", which a lease names"
		case i.Foreign:
			return "deletes foreign " + d.Name
		case i.Deleting:
			return "deletes " + d.Name + " again"
		case d.UID != i.UID || d.ResourceVersion != i.ResourceVersion:
			return "deletes " + d.Name + " without its identity"
		}
		seen[d.Name] = true
	}
	return ""
}

func randomFacts(rng *rand.Rand) PoolFacts {
	chance := func(percent int) bool { return rng.Intn(100) < percent }
	age := func() time.Duration { return time.Duration(rng.Intn(7200)) * time.Second }
	size := int32(1 + rng.Intn(8))
	f := supply(func(s *v1alpha1.ClusterPoolSpec) {
		s.MaxSize, s.MinSize, s.WarmSpares = size, rng.Int31n(size+1), rng.Int31n(size+1)
		s.MaxConcurrent, s.Paused = 1+rng.Int31n(4), chance(15)
		if chance(50) {
			s.UpdateStrategy = v1alpha1.UpdateRecreate
		}
		if chance(50) {
			s.Type = v1alpha1.TypeCRC
			s.SpareMaxAge = &v1alpha1.Duration{Duration: metav1.Duration{Duration: time.Hour}}
		}
	}).waiting(rng.Intn(12))
	if chance(10) {
		f = f.forbidden()
	}
	if chance(40) {
		f = f.surplusFor(age())
	}
	if chance(40) {
		f = f.afterFailures(rng.Int31n(6), age())
	}
	for slot := range size + 4 {
		if chance(70) {
			f.Instances = append(f.Instances, randomInstance(slot, chance, age))
		}
	}
	rng.Shuffle(len(f.Instances), func(a, b int) { f.Instances[a], f.Instances[b] = f.Instances[b], f.Instances[a] })
	return f
}

func randomInstance(slot int32, chance func(int) bool, age func() time.Duration) PoolInstance {
	i := inSlot(slot)
	if chance(60) {
		readySince(age())(&i)
		i.Claimed, i.Named, i.Ready = chance(30), chance(30), chance(80)
	}
	if chance(25) {
		failedSince(age())(&i)
	}
	i.Deleting, i.Stale, i.Foreign = chance(20), chance(30), chance(10)
	return i
}

// TestPoolSettles carries plans out until nothing changes: the supply must
// arrive at what is wanted without creating and deleting in turns.
func TestPoolSettles(t *testing.T) {
	for seed := range int64(500) {
		rng := rand.New(rand.NewSource(seed))
		f := randomFacts(rng)
		f.Spec.Paused, f.Allowed.OK = false, true
		for i := range f.Instances {
			f.Instances[i].Named = false
		}
		now, quiet := noon, 0
		for pass := 0; quiet < 3; pass++ {
			if pass > 200 {
				t.Fatalf("seed %d: still busy after %d passes: %+v", seed, pass, f)
			}
			p := Pool(f, now)
			quiet++
			if len(p.Create)+len(p.Delete) > 0 {
				quiet = 0
			}
			f, now = carryOut(f, p, now), now.Add(15*time.Minute)
		}
		if free := Pool(f, now); free.Capacity.OK && int(free.Status.AvailableInstances) < min(f.Pending, int(f.Spec.WarmSpares)) {
			t.Fatalf("seed %d: settled with %d available, %d leases waiting: %+v", seed, free.Status.AvailableInstances, f.Pending, f)
		}
	}
}

// carryOut deletes and creates at once; what provisions is Ready on the next pass.
func carryOut(f PoolFacts, p PoolPlan, now time.Time) PoolFacts {
	f.Status = p.Status
	gone := map[string]bool{}
	for _, d := range p.Delete {
		gone[d.Name] = true
	}
	var left []PoolInstance
	for _, i := range f.Instances {
		if gone[i.Name] || i.Deleting {
			continue
		}
		if !i.Provisioned && !i.Failed {
			i.Ready, i.Provisioned, i.ReadyTime = true, true, now
		}
		left = append(left, i)
	}
	for _, slot := range p.Create {
		left = append(left, inSlot(slot))
	}
	f.Instances = left
	f.Spec.SpareMaxAge, f.Spec.Type = nil, v1alpha1.TypeCustom
	return f
}

func TestPoolDeletion(t *testing.T) {
	removed := func(slot int32) Deletion {
		i := inSlot(slot)
		return Deletion{Name: i.Name, UID: i.UID, ResourceVersion: "7", Why: "its pool is being deleted"}
	}
	tests := map[string]struct {
		instances []PoolInstance
		remove    []Deletion
		waitsFor  string
	}{
		"nothing is left":              {},
		"a foreign object is not ours": {instances: []PoolInstance{inSlot(0, ready, foreign)}},
		"unclaimed instances are deleted": {
			instances: []PoolInstance{inSlot(0), inSlot(1, ready), inSlot(2, failed), inSlot(3, ready, stale)},
			remove:    []Deletion{removed(0), removed(1), removed(2), removed(3)},
			waitsFor:  "4 instances are being destroyed, 0 are leased: those go when their leases are released"},
		"leased instances are waited for": {
			instances: []PoolInstance{inSlot(0, claimed), inSlot(1, ready)},
			remove:    []Deletion{removed(1)},
			waitsFor:  "1 instances are being destroyed, 1 are leased: those go when their leases are released"},
		"what is being deleted is waited for": {
			instances: []PoolInstance{inSlot(0, claimed, deleting)},
			waitsFor:  "1 instances are being destroyed, 0 are leased: those go when their leases are released"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			remove, waitsFor := PoolDeletion(tt.instances)
			if diff := cmp.Diff(tt.remove, remove); diff != "" {
				t.Errorf("delete (-want +got):\n%s", diff)
			}
			if waitsFor != tt.waitsFor {
				t.Errorf("waits for %q, want %q", waitsFor, tt.waitsFor)
			}
		})
	}
}

func TestFailureText(t *testing.T) {
	tests := map[string]struct {
		failure *v1alpha1.FailureStatus
		want    string
	}{
		"no failure is known": {want: "unknown"},
		"only a reason":       {failure: &v1alpha1.FailureStatus{Reason: "RunLost"}, want: "RunLost"},
		"everything is known": {
			failure: &v1alpha1.FailureStatus{Reason: "RunFailed", Run: "r", Task: "boot", Step: "wait", ExitCode: 12, Message: "no address"},
			want:    "RunFailed in run r, task boot, step wait (exit code 12): no address"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := FailureText(tt.failure); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func BenchmarkPool(b *testing.B) {
	f := supply(func(s *v1alpha1.ClusterPoolSpec) { s.MaxSize, s.WarmSpares = 500, 100 }).waiting(1000)
	for slot := range int32(499) {
		f.Instances = append(f.Instances, inSlot(slot, claimed))
	}
	for b.Loop() {
		Pool(f, noon)
	}
}
