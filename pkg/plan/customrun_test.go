package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/lessee"
)

var runStart = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func runOrder() lessee.Order {
	return lessee.Order{
		Holder: lessee.Holder{Namespace: "ci", PipelineRun: "build", PipelineRunUID: "pr", RunUID: "cr"},
		Pool:   "pool", AcquireTimeout: time.Hour,
	}
}

// waitingRun is an acquire that follows a pending lease of its own.
func waitingRun(change func(*CustomRunFacts)) CustomRunFacts {
	order := runOrder()
	l := order.Lease()
	l.UID = "lease"
	l.Annotations = map[string]string{guestcluster.CustomRunAnnotation: "cr"}
	l.MarkWaiting(v1alpha1.ReasonAtCapacity, "raise maxSize", 1, metav1.Time{Time: runStart})
	f := CustomRunFacts{
		UID: "cr", Order: order, Protected: true, Timeout: time.Hour, Started: runStart, Lease: l, Followed: "lease",
		Waits: Waiting{v1alpha1.ReasonAtCapacity, "raise maxSize"},
	}
	if change != nil {
		change(&f)
	}
	return f
}

func bindLease(l *v1alpha1.ClusterLease) {
	l.Status.InstanceRef = &v1alpha1.ObjectReference{Namespace: "clusters", Name: "pool-0", UID: "i"}
	l.MarkBound(v1alpha1.BoundFacts{Secret: "access", OCPVersion: "4.19.3", Topology: "crc", APIEndpoint: "https://a"}, metav1.Time{Time: runStart})
}

func TestCustomRun(t *testing.T) {
	wrong := lessee.Invalid("param pool is empty: name a ClusterPool")
	fail := func(reason v1alpha1.Reason, message string) CustomRunPlan {
		return CustomRunPlan{Step: CustomRunFail, Reason: reason, Message: message}
	}
	inTime := func(p CustomRunPlan) CustomRunPlan { p.LookAgain = 50 * time.Minute; return p }
	results := []lessee.Result{{Name: "lease", Value: "run-pr"}, {Name: "kubeconfig-secret", Value: "access"}, {Name: "api-endpoint", Value: "https://a"},
		{Name: "ocp-version", Value: "4.19.3"}, {Name: "topology", Value: "crc"}, {Name: "expires-at"}}
	bound := CustomRunPlan{Step: CustomRunSucceed, Reason: "Succeeded", Message: "instance clusters/pool-0; kubeconfig in Secret access", Results: results}
	timedOut := "the CustomRun did not end within its timeout of 1h0m0s; lease run-pr waited for: AtCapacity: raise maxSize"
	for name, row := range map[string]struct {
		facts CustomRunFacts
		after time.Duration // of the attempt; 10 minutes when zero
		want  CustomRunPlan
	}{
		"a new one starts": {facts: waitingRun(func(f *CustomRunFacts) { f.Started = time.Time{} }), want: CustomRunPlan{Step: CustomRunStart}},
		"the finalizer comes before the lease": {
			facts: waitingRun(func(f *CustomRunFacts) { f.Protected, f.Lease, f.Followed = false, nil, "" }), want: inTime(CustomRunPlan{Step: CustomRunProtect})},
		"no lease: it is made": {
			facts: waitingRun(func(f *CustomRunFacts) { f.Lease, f.Followed = nil, "" }), want: inTime(CustomRunPlan{Step: CustomRunCreate})},
		"a lease of the run that waits is followed": {
			facts: waitingRun(func(f *CustomRunFacts) { f.Followed = "" }), want: inTime(CustomRunPlan{Step: CustomRunFollow})},
		"a lease that is bound is followed first": {
			facts: waitingRun(func(f *CustomRunFacts) { f.Followed = ""; bindLease(f.Lease) }), want: inTime(CustomRunPlan{Step: CustomRunFollow})},
		"one that failed before this attempt is replaced": {
			facts: waitingRun(func(f *CustomRunFacts) {
				f.Followed = ""
				f.Lease.MarkEnded(v1alpha1.ReasonAcquireTimeout, "over", metav1.Now())
			}),
			want: inTime(CustomRunPlan{Step: CustomRunReplace})},
		"one that is going is waited out": {
			facts: waitingRun(func(f *CustomRunFacts) { f.Lease.DeletionTimestamp = &metav1.Time{Time: runStart} }),
			want:  inTime(CustomRunPlan{Step: CustomRunWait, Reason: "LeaseDeleted", Message: "lease run-pr is being deleted; waiting until it is gone"})},
		"one that vanished is made anew": {
			facts: waitingRun(func(f *CustomRunFacts) { f.Lease = nil }), want: inTime(CustomRunPlan{Step: CustomRunCreate})},
		"the second one is noted as renewed": {
			facts: waitingRun(func(f *CustomRunFacts) { f.Lease.UID = "second" }), want: inTime(CustomRunPlan{Step: CustomRunFollow, Renewed: true})},
		"one that vanished twice fails": {
			facts: waitingRun(func(f *CustomRunFacts) { f.Lease, f.Renewed = nil, true }),
			want:  inTime(fail("LeaseDeleted", "lease ci/run-pr was deleted by somebody while it waited"))},
		"another holder's lease fails": {
			facts: waitingRun(func(f *CustomRunFacts) { f.Lease.Spec.HolderRef.UID = "other" }),
			want:  inTime(fail("LeaseConflict", "lease ci/run-pr exists and belongs to another holder"))},
		"another pool asks for a slot": {
			facts: waitingRun(func(f *CustomRunFacts) { f.Lease.Spec.PoolRef.Name = "other" }),
			want:  inTime(fail("LeaseConflict", "this run already has a lease on pool ci/other: to take one on ci/pool too, give each acquire and release its own slot"))},
		"an unchanged reason is not written again": {facts: waitingRun(nil), want: inTime(CustomRunPlan{})},
		"a new reason is written": {
			facts: waitingRun(func(f *CustomRunFacts) { f.Waits = Waiting{Reason: v1alpha1.ReasonCustomRunStarted} }),
			want:  inTime(CustomRunPlan{Step: CustomRunWait, Reason: "AtCapacity", Message: "raise maxSize"})},
		"claiming is not worth a write": {
			facts: waitingRun(func(f *CustomRunFacts) { f.Lease.MarkClaiming(v1alpha1.ObjectReference{}, metav1.Now()) }), want: inTime(CustomRunPlan{})},
		"bound succeeds with results":     {facts: waitingRun(func(f *CustomRunFacts) { bindLease(f.Lease) }), want: inTime(bound)},
		"bound in the last second counts": {facts: waitingRun(func(f *CustomRunFacts) { bindLease(f.Lease) }), after: time.Hour, want: CustomRunPlan{Step: bound.Step, Reason: bound.Reason, Message: bound.Message, Results: results}},
		"an unknown pool fails at once, whatever retries are left": {
			facts: waitingRun(func(f *CustomRunFacts) {
				f.RetriesLeft = 3
				f.Lease.MarkWaiting(v1alpha1.ReasonPoolNotFound, "no ClusterPool pool", 0, metav1.Time{})
			}),
			want: inTime(fail("PoolNotFound", "lease ci/run-pr: PoolNotFound: no ClusterPool pool"))},
		"a lease that timed out fails with what it waited for": {
			facts: waitingRun(func(f *CustomRunFacts) { f.Lease.MarkEnded(v1alpha1.ReasonAcquireTimeout, "over", metav1.Now()) }),
			want:  inTime(fail("AcquireTimeout", "lease ci/run-pr: AcquireTimeout: over; it waited for: AtCapacity: raise maxSize"))},
		"it is tried again while attempts are left": {
			facts: waitingRun(func(f *CustomRunFacts) {
				f.RetriesLeft = 1
				f.Lease.MarkEnded(v1alpha1.ReasonAcquireTimeout, "over", metav1.Now())
			}),
			want: inTime(CustomRunPlan{Step: CustomRunRetry, Reason: "AcquireTimeout", Message: "lease ci/run-pr: AcquireTimeout: over; it waited for: AtCapacity: raise maxSize"})},
		"a released lease is not taken again": {
			facts: waitingRun(func(f *CustomRunFacts) {
				f.RetriesLeft = 1
				bindLease(f.Lease)
				f.Lease.MarkEnded(v1alpha1.ReasonReleased, "by its user", metav1.Now())
			}),
			want: inTime(fail("Released", "already released: lease ci/run-pr: Released: by its user"))},
		"its timeout ends it":            {facts: waitingRun(nil), after: time.Hour, want: fail("CustomRunTimedOut", timedOut)},
		"its timeout ends one attempt":   {facts: waitingRun(func(f *CustomRunFacts) { f.RetriesLeft = 2 }), after: time.Hour, want: CustomRunPlan{Step: CustomRunRetry, Reason: "CustomRunTimedOut", Message: timedOut}},
		"no timeout waits":               {facts: waitingRun(func(f *CustomRunFacts) { f.Timeout = 0 }), after: 100 * time.Hour, want: CustomRunPlan{}},
		"wrong params fail before start": {facts: waitingRun(func(f *CustomRunFacts) { f.Wrong, f.Started, f.RetriesLeft = wrong, time.Time{}, 2 }), want: fail("InvalidRequest", wrong.Text)},
		"cancelled before it started":    {facts: waitingRun(func(f *CustomRunFacts) { f.Cancelled, f.Started, f.Waits = true, time.Time{}, Waiting{} }), want: fail("CustomRunCancelled", "the CustomRun was cancelled")},
		"cancelled while it waits": {
			facts: waitingRun(func(f *CustomRunFacts) { f.Cancelled, f.CancelMessage, f.RetriesLeft = true, "by its run", 2 }),
			want:  fail("CustomRunCancelled", "by its run; lease run-pr waited for: AtCapacity: raise maxSize")},
		"cancelled wins over bound": {
			facts: waitingRun(func(f *CustomRunFacts) { f.Cancelled, f.Waits = true, Waiting{}; bindLease(f.Lease) }),
			want:  fail("CustomRunCancelled", "the CustomRun was cancelled")},

		"failed: its waiting lease is removed": {facts: waitingRun(func(f *CustomRunFacts) { f.Done = true }), want: CustomRunPlan{Step: CustomRunRemoveLease}},
		"failed: a bound lease that nobody knows of is given back": {
			facts: waitingRun(func(f *CustomRunFacts) { f.Done = true; bindLease(f.Lease) }), want: CustomRunPlan{Step: CustomRunGiveBack}},
		"failed: a lease that was told to go is left": {
			facts: waitingRun(func(f *CustomRunFacts) { f.Done = true; bindLease(f.Lease); f.Lease.Spec.Release = true }), want: CustomRunPlan{Step: CustomRunForget}},
		"failed: another's lease is left": {
			facts: waitingRun(func(f *CustomRunFacts) { f.Done = true; f.Lease.Annotations = nil }), want: CustomRunPlan{Step: CustomRunForget}},
		"failed: nothing is left": {facts: waitingRun(func(f *CustomRunFacts) { f.Done, f.Lease = true, nil }), want: CustomRunPlan{Step: CustomRunForget}},
		"succeeded: the lease is kept": {
			facts: waitingRun(func(f *CustomRunFacts) { f.Done, f.Succeeded = true, true; bindLease(f.Lease) }), want: CustomRunPlan{Step: CustomRunForget}},
		"ended and forgotten":                 {facts: waitingRun(func(f *CustomRunFacts) { f.Done, f.Protected = true, false }), want: CustomRunPlan{}},
		"deleted: a waiting lease is removed": {facts: waitingRun(func(f *CustomRunFacts) { f.Deleted = true }), want: CustomRunPlan{Step: CustomRunRemoveLease}},
		"deleted: a bound lease lives on":     {facts: waitingRun(func(f *CustomRunFacts) { f.Deleted = true; bindLease(f.Lease) }), want: CustomRunPlan{Step: CustomRunForget}},
		"deleted before anything was made":    {facts: waitingRun(func(f *CustomRunFacts) { f.Deleted, f.Protected = true, false }), want: CustomRunPlan{}},
	} {
		t.Run(name, func(t *testing.T) {
			if row.after == 0 {
				row.after = 10 * time.Minute
			}
			if diff := cmp.Diff(row.want, CustomRun(row.facts, runStart.Add(row.after))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCustomRunOfARelease(t *testing.T) {
	release := func(change func(*CustomRunFacts)) CustomRunFacts {
		return waitingRun(func(f *CustomRunFacts) {
			f.Release, f.Protected, f.Followed = true, false, ""
			if change != nil {
				change(f)
			}
		})
	}
	done := CustomRunPlan{Step: CustomRunSucceed, Reason: "Succeeded"}
	said := func(p CustomRunPlan, text string) CustomRunPlan { p.Message = text; return p }
	for name, row := range map[string]struct {
		facts CustomRunFacts
		want  CustomRunPlan
	}{
		"a lease is released":         {release(nil), CustomRunPlan{Step: CustomRunRelease, Reason: "Succeeded", Message: "released lease ci/run-pr"}},
		"no lease is success":         {release(func(f *CustomRunFacts) { f.Lease = nil }), said(done, "nothing to release: there is no lease ci/run-pr")},
		"released before is success":  {release(func(f *CustomRunFacts) { f.Lease.Spec.Release = true }), said(done, "nothing to release: lease ci/run-pr was released before")},
		"another holder's is refused": {release(func(f *CustomRunFacts) { f.Lease.Spec.HolderRef = nil }), CustomRunPlan{Step: CustomRunFail, Reason: "LeaseConflict", Message: "lease ci/run-pr belongs to another holder: not released"}},
		"cancelled releases nothing":  {release(func(f *CustomRunFacts) { f.Cancelled, f.Waits = true, Waiting{} }), CustomRunPlan{Step: CustomRunFail, Reason: "CustomRunCancelled", Message: "the CustomRun was cancelled"}},
		"it needs no finalizer":       {release(func(f *CustomRunFacts) { f.Done = true }), CustomRunPlan{}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(row.want, CustomRun(row.facts, runStart)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
