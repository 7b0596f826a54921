package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

func span(d time.Duration) *v1alpha1.Duration {
	return &v1alpha1.Duration{Duration: metav1.Duration{Duration: d}}
}

type leaseChange = func(*v1alpha1.ClusterLease)

func newLease(changes ...leaseChange) *v1alpha1.ClusterLease {
	l := &v1alpha1.ClusterLease{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ci", Name: "run", UID: "lease-uid", CreationTimestamp: metav1.Time{Time: ago(10 * time.Minute)}}}
	l.Spec.PoolRef.Name = "crc"
	for _, change := range changes {
		change(l)
	}
	return l
}

func names(l *v1alpha1.ClusterLease) {
	l.MarkClaiming(v1alpha1.ObjectReference{Namespace: "clusters", Name: "crc-0", UID: "i"}, metav1.Time{Time: ago(5 * time.Second)})
}

// boundFor makes a lease Bound with the ttl its spec has.
func boundFor(age time.Duration) leaseChange {
	return func(l *v1alpha1.ClusterLease) {
		names(l)
		l.MarkBound(v1alpha1.BoundFacts{Secret: "run-access", TTL: l.Spec.TTL}, metav1.Time{Time: ago(age)})
	}
}

func ttl(d time.Duration) leaseChange { return func(l *v1alpha1.ClusterLease) { l.Spec.TTL = span(d) } }

func acquireTimeout(d time.Duration) leaseChange {
	return func(l *v1alpha1.ClusterLease) { l.Spec.AcquireTimeout = span(d) }
}

func released(l *v1alpha1.ClusterLease) { l.Spec.Release = true }

func held(l *v1alpha1.ClusterLease) {
	l.Spec.HolderRef = &v1alpha1.HolderReference{Kind: "PipelineRun", Name: "pr", UID: "pr-uid"}
}

func endedFor(age time.Duration) leaseChange {
	return func(l *v1alpha1.ClusterLease) { l.MarkEnded(v1alpha1.ReasonReleased, "", metav1.Time{Time: ago(age)}) }
}

func atCapacity(l *v1alpha1.ClusterLease) {
	l.MarkWaiting(v1alpha1.ReasonAtCapacity, "position 3 of 3", 3, metav1.Time{Time: ago(time.Minute)})
}

func TestLease(t *testing.T) {
	bound := boundFor(30 * time.Minute)
	tests := map[string]struct {
		facts LeaseFacts
		want  LeasePlan
	}{
		"a new lease waits for the binding": {
			facts: LeaseFacts{Lease: newLease()}, want: LeasePlan{Step: LeaseWait}},
		"a waiting lease is looked at when its time is over": {
			facts: LeaseFacts{Lease: newLease(acquireTimeout(time.Hour))},
			want:  LeasePlan{Step: LeaseWait, LookAgain: 50 * time.Minute}},
		"a bound lease is looked at when its ttl is over": {
			facts: LeaseFacts{Lease: newLease(ttl(time.Hour), bound), Hold: HoldOurs},
			want:  LeasePlan{Step: LeaseKeep, TTL: span(time.Hour), LookAgain: 30 * time.Minute}},
		"a bound lease without a ttl is never looked at": {
			facts: LeaseFacts{Lease: newLease(acquireTimeout(time.Minute), bound), Hold: HoldOurs}, want: LeasePlan{Step: LeaseKeep}},

		"release ends a waiting lease": {
			facts: LeaseFacts{Lease: newLease(released)},
			want:  LeasePlan{Step: LeaseEnd, Reason: v1alpha1.ReasonReleased, Message: "spec.release was set"}},
		"release ends a bound lease": {
			facts: LeaseFacts{Lease: newLease(released, bound), Hold: HoldOurs},
			want:  LeasePlan{Step: LeaseEnd, Reason: v1alpha1.ReasonReleased, Message: "spec.release was set"}},
		"release ends a lease in the middle of its claim": {
			facts: LeaseFacts{Lease: newLease(released, names), Hold: HoldOpen},
			want:  LeasePlan{Step: LeaseEnd, Reason: v1alpha1.ReasonReleased, Message: "spec.release was set"}},
		"release comes before every other reason": {
			facts: LeaseFacts{Lease: newLease(released, held, acquireTimeout(time.Second)), Holder: HolderGone},
			want:  LeasePlan{Step: LeaseEnd, Reason: v1alpha1.ReasonReleased, Message: "spec.release was set"}},
		"a running holder changes nothing": {
			facts: LeaseFacts{Lease: newLease(held), Holder: HolderRunning}, want: LeasePlan{Step: LeaseWait}},
		"the holder's end ends a bound lease": {
			facts: LeaseFacts{Lease: newLease(held, bound), Holder: HolderDone, Hold: HoldOurs},
			want:  LeasePlan{Step: LeaseEnd, Reason: v1alpha1.ReasonHolderDone, Message: "PipelineRun pr has ended"}},
		"the holder's end ends a waiting lease": {
			facts: LeaseFacts{Lease: newLease(held), Holder: HolderDone},
			want:  LeasePlan{Step: LeaseEnd, Reason: v1alpha1.ReasonHolderDone, Message: "PipelineRun pr has ended"}},
		"the holder's deletion ends a lease": {
			facts: LeaseFacts{Lease: newLease(held, bound), Holder: HolderGone, Hold: HoldOurs},
			want:  LeasePlan{Step: LeaseEnd, Reason: v1alpha1.ReasonHolderGone, Message: "PipelineRun pr (UID pr-uid) does not exist"}},
		"the ttl is over": {
			facts: LeaseFacts{Lease: newLease(ttl(30*time.Minute), bound), Hold: HoldOurs},
			want: LeasePlan{Step: LeaseEnd, Reason: v1alpha1.ReasonExpired,
				Message: "the ttl of 30m0s is over: ask for a longer one, up to the pool's maxTTL"}},
		"the ttl does not run while the lease waits": {
			facts: LeaseFacts{Lease: newLease(ttl(time.Minute))}, want: LeasePlan{Step: LeaseWait, TTL: span(time.Minute)}},
		"nobody looked before the acquire timeout": {
			facts: LeaseFacts{Lease: newLease(acquireTimeout(10 * time.Minute))},
			want: LeasePlan{Step: LeaseEnd, Reason: v1alpha1.ReasonAcquireTimeout,
				Message: "not bound within 10m0s; it waited because: the controller had not looked at it"}},
		"the acquire timeout says why the lease waited": {
			facts: LeaseFacts{Lease: newLease(atCapacity), Policy: &v1alpha1.LeasePolicy{MaxPending: span(5 * time.Minute)}},
			want: LeasePlan{Step: LeaseEnd, Reason: v1alpha1.ReasonAcquireTimeout,
				Message: "not bound within 5m0s; it waited because: AtCapacity: position 3 of 3"}},
		"the acquire timeout ends a claim that was never handed over": {
			facts: LeaseFacts{Lease: newLease(acquireTimeout(time.Minute), names), Hold: HoldOurs},
			want: LeasePlan{Step: LeaseEnd, Reason: v1alpha1.ReasonAcquireTimeout,
				Message: "not bound within 1m0s; it waited because: Claiming: claiming instance clusters/crc-0"}},

		"a longer ttl is written down": {
			facts: LeaseFacts{Lease: newLease(ttl(time.Hour), bound, ttl(2*time.Hour)), Hold: HoldOurs},
			want:  LeasePlan{Step: LeaseRetime, TTL: span(2 * time.Hour), LookAgain: 90 * time.Minute}},
		"an added ttl is written down": {
			facts: LeaseFacts{Lease: newLease(bound, ttl(time.Hour)), Hold: HoldOurs},
			want:  LeasePlan{Step: LeaseRetime, TTL: span(time.Hour), LookAgain: 30 * time.Minute}},
		"a pool's lower maximum is written down": {
			facts: LeaseFacts{Lease: newLease(ttl(2*time.Hour), bound), Hold: HoldOurs, Policy: &v1alpha1.LeasePolicy{MaxTTL: span(time.Hour)}},
			want:  LeasePlan{Step: LeaseRetime, TTL: span(time.Hour), LookAgain: 30 * time.Minute}},

		"a lease that is being released goes on for its first reason": {
			facts: LeaseFacts{Lease: newLease(bound, held, func(l *v1alpha1.ClusterLease) { l.MarkReleasing(v1alpha1.ReasonExpired, "over") }),
				Holder: HolderDone, Hold: HoldLost},
			want: LeasePlan{Step: LeaseEnd, Reason: v1alpha1.ReasonExpired, Message: "over"}},
		"an ended lease stays readable for an hour": {
			facts: LeaseFacts{Lease: newLease(endedFor(20 * time.Minute))}, want: LeasePlan{Step: LeaseWait, LookAgain: 40 * time.Minute}},
		"an ended lease is removed after an hour": {
			facts: LeaseFacts{Lease: newLease(endedFor(time.Hour))}, want: LeasePlan{Step: LeaseRemove}},
		"an ended lease cannot be released or expired again": {
			facts: LeaseFacts{Lease: newLease(ttl(time.Minute), boundFor(time.Hour), endedFor(0), released), Holder: HolderGone, Hold: HoldLost},
			want:  LeasePlan{Step: LeaseWait, LookAgain: time.Hour}},
		"a lease whose end has no time is removed": {
			facts: LeaseFacts{Lease: newLease(endedFor(0), func(l *v1alpha1.ClusterLease) { l.Status.EndedTime = nil })},
			want:  LeasePlan{Step: LeaseRemove}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Lease(tt.facts, noon)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLeaseByHoldAndPhase is the whole truth about a lease that need not end.
func TestLeaseByHoldAndPhase(t *testing.T) {
	const end = LeaseEnd
	phases := map[string]*v1alpha1.ClusterLease{
		"new":       newLease(),
		"pending":   newLease(names),
		"bound":     newLease(boundFor(time.Minute)),
		"releasing": newLease(boundFor(time.Minute), func(l *v1alpha1.ClusterLease) { l.MarkReleasing(v1alpha1.ReasonReleased, "") }),
		"ended":     newLease(boundFor(time.Minute), endedFor(time.Minute)),
		"failed": newLease(names, func(l *v1alpha1.ClusterLease) {
			l.MarkEnded(v1alpha1.ReasonAcquireTimeout, "", metav1.Time{Time: ago(time.Minute)})
		}),
	}
	truth := map[Hold]map[string]LeaseStep{
		HoldNone:     {"new": LeaseWait, "pending": LeaseWait, "bound": LeaseWait},
		HoldGone:     {"pending": LeaseForget, "bound": end},
		HoldOther:    {"pending": LeaseForget, "bound": end},
		HoldDeleting: {"pending": LeaseForget, "bound": end},
		HoldOpen:     {"pending": LeaseClaim, "bound": LeaseClaim},
		HoldUnready:  {"pending": LeaseGiveUp, "bound": LeaseGiveUp},
		HoldOurs:     {"pending": LeaseHandOver, "bound": LeaseKeep},
		HoldLost:     {"pending": end, "bound": end},
	}
	for hold, row := range truth {
		row["releasing"], row["ended"], row["failed"] = end, LeaseWait, LeaseWait
		for phase, want := range row {
			got := Lease(LeaseFacts{Lease: phases[phase], Hold: hold}, noon)
			if got.Step != want {
				t.Errorf("hold %d, %s: step %d, want %d", hold, phase, got.Step, want)
			}
			if phase != "releasing" && got.Step == end && got.Reason != v1alpha1.ReasonInstanceLost {
				t.Errorf("hold %d, %s: reason %s, want InstanceLost", hold, phase, got.Reason)
			}
		}
	}
}

func TestALostInstanceIsNamed(t *testing.T) {
	got := Lease(LeaseFacts{Lease: newLease(boundFor(0)), Hold: HoldLost}, noon)
	if !strings.Contains(got.Message, "clusters/crc-0") || !strings.Contains(got.Message, "make another lease") {
		t.Errorf("message %q", got.Message)
	}
}

func TestEffectiveTTL(t *testing.T) {
	both := &v1alpha1.LeasePolicy{DefaultTTL: span(time.Hour), MaxTTL: span(2 * time.Hour)}
	tests := map[string]struct {
		lease  *v1alpha1.ClusterLease
		policy *v1alpha1.LeasePolicy
		want   *v1alpha1.Duration
	}{
		"nobody names one":                          {lease: newLease()},
		"the lease's own":                           {lease: newLease(ttl(time.Hour)), want: span(time.Hour)},
		"the lease's own below the maximum":         {lease: newLease(ttl(90 * time.Minute)), policy: both, want: span(90 * time.Minute)},
		"the pool's default":                        {lease: newLease(), policy: both, want: span(time.Hour)},
		"the maximum caps the lease's own":          {lease: newLease(ttl(9 * time.Hour)), policy: both, want: span(2 * time.Hour)},
		"the maximum caps the default":              {lease: newLease(), policy: &v1alpha1.LeasePolicy{DefaultTTL: span(3 * time.Hour), MaxTTL: span(time.Hour)}, want: span(time.Hour)},
		"the maximum holds for those without":       {lease: newLease(), policy: &v1alpha1.LeasePolicy{MaxTTL: span(time.Hour)}, want: span(time.Hour)},
		"an empty policy names none":                {lease: newLease(), policy: &v1alpha1.LeasePolicy{}},
		"what was written stays when the pool goes": {lease: newLease(func(l *v1alpha1.ClusterLease) { l.MarkTTL(span(time.Hour)) }), want: span(time.Hour)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, EffectiveTTL(tt.lease, tt.policy)); diff != "" {
				t.Errorf("ttl (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPendingLimit(t *testing.T) {
	hour := &v1alpha1.LeasePolicy{MaxPending: span(time.Hour)}
	tests := map[string]struct {
		lease  *v1alpha1.ClusterLease
		policy *v1alpha1.LeasePolicy
		want   time.Duration
	}{
		"nobody names one":           {lease: newLease()},
		"the lease's own":            {lease: newLease(acquireTimeout(time.Minute)), want: time.Minute},
		"the pool's":                 {lease: newLease(), policy: hour, want: time.Hour},
		"the pool's caps":            {lease: newLease(acquireTimeout(2 * time.Hour)), policy: hour, want: time.Hour},
		"the lease's own if shorter": {lease: newLease(acquireTimeout(time.Minute)), policy: hour, want: time.Minute},
		"a policy without a limit":   {lease: newLease(acquireTimeout(time.Minute)), policy: &v1alpha1.LeasePolicy{}, want: time.Minute},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := PendingLimit(tt.lease, tt.policy); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestAClaimIsLeftToTheBindingAtFirst(t *testing.T) {
	l := newLease(func(l *v1alpha1.ClusterLease) {
		l.MarkClaiming(v1alpha1.ObjectReference{Namespace: "clusters", Name: "crc-0", UID: "i"}, metav1.Time{Time: ago(500 * time.Millisecond)})
	})
	got := Lease(LeaseFacts{Lease: l, Hold: HoldOpen}, noon)
	if want := (LeasePlan{Step: LeaseWait, LookAgain: 1500 * time.Millisecond}); !cmp.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestBlockedTooLong(t *testing.T) {
	since := func(d time.Duration) *v1alpha1.ClusterLease {
		return newLease(func(l *v1alpha1.ClusterLease) { l.Status.ClaimedTime = &metav1.Time{Time: ago(d)} })
	}
	for name, tt := range map[string]struct {
		lease    *v1alpha1.ClusterLease
		obstacle Obstacle
		want     bool
	}{
		"a person has time to make way":                 {since(9 * time.Minute), Obstacle{}, false},
		"a cluster is not held for ever":                {since(10 * time.Minute), Obstacle{}, true},
		"what cannot be removed is not waited for":      {since(0), Obstacle{Final: true}, true},
		"without the time of the claim there is no end": {newLease(), Obstacle{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := BlockedTooLong(tt.lease, tt.obstacle, noon); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
}
