package v1alpha1

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func newLease() *ClusterLease {
	return &ClusterLease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: "run", UID: "lease-uid", Generation: 3},
		Spec:       ClusterLeaseSpec{PoolRef: PoolReference{Name: "crc"}},
	}
}

func hours(n time.Duration) *Duration {
	return &Duration{Duration: metav1.Duration{Duration: n * time.Hour}}
}

func TestLeaseLifecycle(t *testing.T) {
	type step = func(*ClusterLease)
	queued := step(func(l *ClusterLease) { l.MarkWaiting(ReasonAtCapacity, "full", 3, noon) })
	claiming := step(func(l *ClusterLease) {
		l.MarkClaiming(ObjectReference{Namespace: "clusters", Name: "crc-0", UID: "i"}, metav1.Time{})
	})
	unclaimed := step(func(l *ClusterLease) { l.MarkUnclaimed("it went to another") })
	blocked := step(func(l *ClusterLease) { l.MarkBlocked(ReasonAccessSecretConflict, "in the way") })
	bound := step(func(l *ClusterLease) {
		l.MarkBound(BoundFacts{Secret: "run-access", OCPVersion: "4.19.3", Topology: "crc", APIEndpoint: "https://x", TTL: hours(2)}, noon)
	})
	releasing := step(func(l *ClusterLease) { l.MarkReleasing(ReasonExpired, "over") })
	ended := func(reason Reason) step { return func(l *ClusterLease) { l.MarkEnded(reason, "", noon) } }

	type outcome struct {
		Phase         LeasePhase
		Bound         string
		Instance      string
		Queue         int32
		Ending, Ended bool
	}
	tests := map[string]struct {
		steps []step
		want  outcome
	}{
		"new":    {want: outcome{}},
		"queued": {steps: []step{queued}, want: outcome{Phase: LeasePending, Bound: "Unknown AtCapacity", Queue: 3}},
		"claiming leaves the queue": {steps: []step{queued, claiming},
			want: outcome{Phase: LeasePending, Bound: "Unknown Claiming", Instance: "crc-0"}},
		"unclaimed waits again": {steps: []step{claiming, unclaimed},
			want: outcome{Phase: LeasePending, Bound: "Unknown WaitingForCapacity"}},
		"a blocked hand-over keeps its claim": {steps: []step{claiming, blocked},
			want: outcome{Phase: LeasePending, Bound: "Unknown AccessSecretConflict", Instance: "crc-0"}},
		"bound": {steps: []step{claiming, bound},
			want: outcome{Phase: LeaseBound, Bound: "True InstanceBound", Instance: "crc-0"}},
		"releasing": {steps: []step{claiming, bound, releasing},
			want: outcome{Phase: LeaseReleasing, Bound: "False Expired", Instance: "crc-0", Ending: true}},
		"released by its user":             {steps: []step{claiming, bound, releasing, ended(ReasonReleased)}, want: outcome{Phase: LeaseReleased, Bound: "False Released", Instance: "crc-0", Ending: true, Ended: true}},
		"released while it waited":         {steps: []step{queued, ended(ReasonReleased)}, want: outcome{Phase: LeaseReleased, Bound: "False Released", Ending: true, Ended: true}},
		"expired":                          {steps: []step{claiming, bound, ended(ReasonExpired)}, want: outcome{Phase: LeaseReleased, Bound: "False Expired", Instance: "crc-0", Ending: true, Ended: true}},
		"its holder ended while it held":   {steps: []step{claiming, bound, ended(ReasonHolderDone)}, want: outcome{Phase: LeaseReleased, Bound: "False HolderDone", Instance: "crc-0", Ending: true, Ended: true}},
		"its holder ended while it waited": {steps: []step{queued, ended(ReasonHolderDone)}, want: outcome{Phase: LeaseFailed, Bound: "False HolderDone", Ending: true, Ended: true}},
		"it waited too long":               {steps: []step{queued, ended(ReasonAcquireTimeout)}, want: outcome{Phase: LeaseFailed, Bound: "False AcquireTimeout", Ending: true, Ended: true}},
		"its instance was lost":            {steps: []step{claiming, bound, ended(ReasonInstanceLost)}, want: outcome{Phase: LeaseFailed, Bound: "False InstanceLost", Instance: "crc-0", Ending: true, Ended: true}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := newLease()
			for _, mark := range tt.steps {
				mark(l)
			}
			got := outcome{Phase: l.Status.Phase, Bound: told(l.Status.Conditions, ConditionBound), Queue: l.Status.QueuePosition, Ending: l.Ending(), Ended: l.Ended()}
			if ref := l.Status.InstanceRef; ref != nil {
				got.Instance = ref.Name
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("lease (-want +got):\n%s", diff)
			}
			if told(l.Status.Conditions, ConditionReady) != got.Bound {
				t.Errorf("Ready is %q and does not mirror Bound %q", told(l.Status.Conditions, ConditionReady), got.Bound)
			}
			if (l.Status.QueuePositionTime != nil) != (got.Queue > 0) {
				t.Errorf("queuePositionTime %v with position %d", l.Status.QueuePositionTime, got.Queue)
			}
			if (l.Status.EndedTime != nil) != got.Ended || (len(tt.steps) > 0 && l.Status.ObservedGeneration != 3) {
				t.Errorf("endedTime %v, observedGeneration %d", l.Status.EndedTime, l.Status.ObservedGeneration)
			}
		})
	}
}

func TestBoundTellsWhatCINeeds(t *testing.T) {
	l := newLease()
	l.MarkClaiming(ObjectReference{Namespace: "clusters", Name: "crc-0", UID: "i"}, noon)
	l.MarkBound(BoundFacts{Secret: "run-access", OCPVersion: "4.19.3", Topology: "crc", APIEndpoint: "https://x", TTL: hours(2)}, noon)
	expires := metav1.Time{Time: noon.Add(2 * time.Hour)}
	want := ClusterLeaseStatus{
		ObservedGeneration: 3, Phase: LeaseBound, InstanceRef: &ObjectReference{Namespace: "clusters", Name: "crc-0", UID: "i"},
		KubeconfigSecretRef: &LocalReference{Name: "run-access"}, OCPVersion: "4.19.3", Topology: "crc", APIEndpoint: "https://x",
		ClaimedTime: &noon, BoundTime: &noon, ExpiresAt: &expires, EffectiveTTL: hours(2),
	}
	if got := l.Status.BoundMessage(); got != "instance clusters/crc-0; kubeconfig in Secret run-access" {
		t.Errorf("message %q", got)
	}
	l.Status.Conditions = nil
	if diff := cmp.Diff(want, l.Status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestTTL(t *testing.T) {
	tests := map[string]struct {
		bound bool
		ttl   *Duration
		want  *metav1.Time
	}{
		"no ttl, no end":           {bound: true},
		"it runs from the binding": {bound: true, ttl: hours(1), want: &metav1.Time{Time: noon.Add(time.Hour)}},
		"it does not run before":   {ttl: hours(1)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := newLease()
			l.Status.ExpiresAt = &noon
			if tt.bound {
				l.Status.BoundTime = &noon
			}
			l.MarkTTL(tt.ttl)
			if diff := cmp.Diff(tt.want, l.Status.ExpiresAt); diff != "" {
				t.Errorf("expiresAt (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPoolKey(t *testing.T) {
	l := newLease()
	if got := l.PoolKey(); got != "ci/crc" {
		t.Errorf("the lease's own namespace: %s", got)
	}
	l.Spec.PoolRef.Namespace = "clusters"
	if got := l.PoolKey(); got != "clusters/crc" {
		t.Errorf("the pool's namespace: %s", got)
	}
	if got := l.AccessSecretName(); got != "run-access" {
		t.Errorf("access Secret: %s", got)
	}
}
