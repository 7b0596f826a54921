package plan

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

var instanceNow = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

func TestRun(t *testing.T) {
	rows := map[string]struct {
		facts  RunFacts
		age    time.Duration
		step   RunStep
		reason v1alpha1.Reason
	}{
		"a queued run is waited for":                      {RunFacts{State: RunQueued}, 0, RunWait, v1alpha1.ReasonRunQueued},
		"a running run is waited for":                     {RunFacts{State: RunRunning}, time.Minute, RunWait, v1alpha1.ReasonRunRunning},
		"a running run keeps its grace after the timeout": {RunFacts{State: RunRunning}, 61 * time.Minute, RunWait, v1alpha1.ReasonRunRunning},
		"a run that never ends fails the instance":        {RunFacts{State: RunRunning}, 62 * time.Minute, RunFail, v1alpha1.ReasonProvisioningTimeout},
		"a run that Tekton never starts fails it too":     {RunFacts{State: RunQueued}, 62 * time.Minute, RunFail, v1alpha1.ReasonProvisioningTimeout},
		"a good run is accepted, however late":            {RunFacts{State: RunSucceeded}, 5 * time.Hour, RunAccept, ""},
		"a failed run fails the instance":                 {RunFacts{State: RunFailed}, 0, RunFail, v1alpha1.ReasonRunFailed},
		"a run that timed out fails the instance":         {RunFacts{State: RunTimedOut}, 0, RunFail, v1alpha1.ReasonProvisioningTimeout},
		"a pruned run that handed off is accepted":        {RunFacts{State: RunMissing, HandedOff: true}, 0, RunAccept, ""},
		"a vanished run is tried again":                   {RunFacts{State: RunMissing}, 0, RunRetry, v1alpha1.ReasonPreparing},
		"a cancelled run is tried again":                  {RunFacts{State: RunCancelled, Attempt: 1}, 0, RunRetry, v1alpha1.ReasonPreparing},
		"a cancelled run is not accepted":                 {RunFacts{State: RunCancelled, HandedOff: true}, 0, RunRetry, v1alpha1.ReasonPreparing},
		"a run that lost its pod is tried again":          {RunFacts{State: RunInterrupted, Attempt: 1}, 0, RunRetry, v1alpha1.ReasonPreparing},
		"and is lost the third time":                      {RunFacts{State: RunInterrupted, Attempt: 2}, 0, RunFail, v1alpha1.ReasonRunLost},
		"or when its time is over":                        {RunFacts{State: RunInterrupted}, 60 * time.Minute, RunFail, v1alpha1.ReasonProvisioningTimeout},
		"what it handed off is not accepted":              {RunFacts{State: RunInterrupted, HandedOff: true}, 0, RunRetry, v1alpha1.ReasonPreparing},
		"the third attempt is the last":                   {RunFacts{State: RunMissing, Attempt: 2}, 0, RunFail, v1alpha1.ReasonRunLost},
		"no attempt starts when the time is over":         {RunFacts{State: RunCancelled}, 60 * time.Minute, RunFail, v1alpha1.ReasonProvisioningTimeout},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			row.facts.Timeout, row.facts.StartedAt = time.Hour, instanceNow.Add(-row.age)
			got := Run(row.facts, instanceNow)
			if got.Step != row.step || got.Reason != row.reason {
				t.Errorf("got %+v", got)
			}
			if got.Step == RunWait && got.After != 62*time.Minute-row.age {
				t.Errorf("looks again after %s", got.After)
			}
		})
	}
}

func TestProbe(t *testing.T) {
	ago := func(d time.Duration) time.Time { return instanceNow.Add(-d) }
	rows := map[string]struct {
		facts ProbeFacts
		want  ProbePlan
	}{
		"nothing is known after a start":           {ProbeFacts{Ready: true}, ProbePlan{ProbeUndecided, true, time.Minute}},
		"a good probe makes it reachable":          {ProbeFacts{Probed: ago(0), Good: true}, ProbePlan{ProbeReachable, false, 5 * time.Second}},
		"a Ready one is probed every minute":       {ProbeFacts{Ready: true, Probed: ago(time.Minute), Good: true}, ProbePlan{ProbeReachable, true, time.Minute}},
		"one that starts again is asked sooner":    {ProbeFacts{Ready: true, Awaited: true, Probed: ago(6 * time.Second), Misses: 1}, ProbePlan{ProbeUndecided, true, 5 * time.Second}},
		"two misses change nothing":                {ProbeFacts{Ready: true, Probed: ago(time.Second), Misses: 2}, ProbePlan{ProbeUndecided, false, 59 * time.Second}},
		"an answer that is not in full is no miss": {ProbeFacts{Probed: ago(0)}, ProbePlan{ProbeUndecided, false, 5 * time.Second}},
		"three misses keep it from leases":         {ProbeFacts{Ready: true, Probed: ago(0), Misses: 3}, ProbePlan{ProbeUnreachable, false, time.Minute}},
		"one miss suffices for an unreachable one": {ProbeFacts{Ready: true, Probed: ago(0), Misses: 1, UnreachableSince: ago(time.Minute)}, ProbePlan{ProbeUnreachable, false, time.Minute}},
		"ten minutes end it":                       {ProbeFacts{Ready: true, Probed: ago(0), Misses: 9, UnreachableSince: ago(10 * time.Minute), Peers: 2, Failing: 1}, ProbePlan{ProbeFailed, false, time.Minute}},
		"a single instance has no one to compare":  {ProbeFacts{Ready: true, Probed: ago(0), Misses: 9, UnreachableSince: ago(10 * time.Minute), Peers: 1, Failing: 1}, ProbePlan{ProbeFailed, false, time.Minute}},
		"over half of the pool holds it":           {ProbeFacts{Ready: true, Probed: ago(0), Misses: 9, UnreachableSince: ago(time.Hour), Peers: 3, Failing: 2}, ProbePlan{ProbeHeld, false, time.Minute}},
		"a claimed one is never ended":             {ProbeFacts{Ready: true, Claimed: true, Probed: ago(0), Misses: 99, UnreachableSince: ago(time.Hour), Peers: 1, Failing: 1}, ProbePlan{ProbeUnreachable, false, time.Minute}},
		"one that was never Ready ends as well":    {ProbeFacts{Probed: ago(0), Misses: 99, UnreachableSince: ago(11 * time.Minute), Peers: 1, Failing: 1}, ProbePlan{ProbeFailed, false, 5 * time.Second}},
		"and is not held with its like":            {ProbeFacts{Probed: ago(0), Misses: 99, UnreachableSince: ago(11 * time.Minute), Peers: 3, Failing: 3}, ProbePlan{ProbeFailed, false, 5 * time.Second}},
		"a probe of two minutes ago still counts":  {ProbeFacts{Ready: true, Probed: ago(2 * time.Minute), Good: true}, ProbePlan{ProbeReachable, true, time.Minute}},
		"a good one of an earlier term does not":   {ProbeFacts{Ready: true, Probed: ago(time.Hour), Good: true}, ProbePlan{ProbeUndecided, true, time.Minute}},
		"nor do its misses":                        {ProbeFacts{Ready: true, Probed: ago(time.Hour), Misses: 9, UnreachableSince: ago(2 * time.Hour)}, ProbePlan{ProbeUndecided, true, time.Minute}},
		"nor one from before Ready":                {ProbeFacts{Probed: ago(3 * time.Minute), Good: true}, ProbePlan{ProbeUndecided, true, 5 * time.Second}},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			if got := Probe(row.facts, instanceNow); got != row.want {
				t.Errorf("got %+v, want %+v", got, row.want)
			}
		})
	}
}

func TestClaimStands(t *testing.T) {
	i := &v1alpha1.ClusterInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p-0", UID: "i1"}}
	i.Spec.ClaimRef = &v1alpha1.ClaimReference{LeaseNamespace: "ci", LeaseName: "l", LeaseUID: "l1"}
	good := func() *v1alpha1.ClusterLease {
		ref := i.Reference()
		l := &v1alpha1.ClusterLease{ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: "l", UID: "l1"}}
		l.Status.InstanceRef, l.Status.Phase = &ref, v1alpha1.LeaseBound
		return l
	}
	rows := map[string]struct {
		change func(*v1alpha1.ClusterLease)
		want   bool
	}{
		"bound":                {func(*v1alpha1.ClusterLease) {}, true},
		"claiming":             {func(l *v1alpha1.ClusterLease) { l.Status.Phase = v1alpha1.LeasePending }, true},
		"releasing":            {func(l *v1alpha1.ClusterLease) { l.Status.Phase = v1alpha1.LeaseReleasing }, true},
		"released":             {func(l *v1alpha1.ClusterLease) { l.Status.Phase = v1alpha1.LeaseReleased }, false},
		"failed":               {func(l *v1alpha1.ClusterLease) { l.Status.Phase = v1alpha1.LeaseFailed }, false},
		"another UID":          {func(l *v1alpha1.ClusterLease) { l.UID = "l2" }, false},
		"names another":        {func(l *v1alpha1.ClusterLease) { l.Status.InstanceRef.Name = "p-1" }, false},
		"names the last of it": {func(l *v1alpha1.ClusterLease) { l.Status.InstanceRef.UID = "i0" }, false},
		"names none":           {func(l *v1alpha1.ClusterLease) { l.Status.InstanceRef = nil }, false},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			lease := good()
			row.change(lease)
			if got := ClaimStands(i, lease); got != row.want {
				t.Errorf("got %t", got)
			}
		})
	}
	if ClaimStands(i, nil) {
		t.Error("a claim without a lease stands")
	}
}

func TestPoolStands(t *testing.T) {
	going := metav1.NewTime(instanceNow)
	pool := func(uid types.UID, deleted *metav1.Time) *v1alpha1.ClusterPool {
		return &v1alpha1.ClusterPool{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: uid, DeletionTimestamp: deleted}}
	}
	rows := map[string]struct {
		standalone, claimed bool
		pool                *v1alpha1.ClusterPool
		want                bool
	}{
		"its pool is there":              {pool: pool("p1", nil), want: true},
		"no such pool":                   {},
		"another pool of that name":      {pool: pool("p2", nil)},
		"its pool is being deleted":      {pool: pool("p1", &going)},
		"a standalone one needs no pool": {standalone: true, want: true},
		"a leased one outlives its pool": {claimed: true, want: true},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			i := &v1alpha1.ClusterInstance{}
			if !row.standalone {
				i.Spec.PoolRef = &v1alpha1.OwnerPool{Name: "p", UID: "p1"}
			}
			if row.claimed {
				i.Spec.ClaimRef = &v1alpha1.ClaimReference{LeaseUID: "l1"}
			}
			if got := PoolStands(i, row.pool); got != row.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestKeepRun(t *testing.T) {
	at := metav1.NewTime(instanceNow)
	ready, failed := &v1alpha1.ClusterInstance{}, &v1alpha1.ClusterInstance{}
	ready.Status.ReadyTime = &at
	failed.Status.Failure = &v1alpha1.FailureStatus{Time: at}
	rows := map[string]struct {
		instance *v1alpha1.ClusterInstance
		age      time.Duration
		keep     bool
	}{
		"provisioning":        {&v1alpha1.ClusterInstance{}, 9 * time.Hour, true},
		"Ready just now":      {ready, 9 * time.Minute, true},
		"Ready ten minutes":   {ready, 10 * time.Minute, false},
		"failed not long ago": {failed, 59 * time.Minute, true},
		"failed an hour ago":  {failed, time.Hour, false},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			if keep, _ := KeepRun(row.instance, instanceNow.Add(row.age)); keep != row.keep {
				t.Errorf("got %t", keep)
			}
		})
	}
}

func TestLetGo(t *testing.T) {
	secret, run := Remnant{Text: "Secret a"}, Remnant{Text: "PipelineRun r", Straggler: true}
	rows := map[string]struct {
		left  []Remnant
		named bool
		age   time.Duration
		want  bool
	}{
		"nothing is left":                       {want: true},
		"a Secret is waited for":                {left: []Remnant{secret}, named: true, age: time.Hour},
		"a Secret is waited for, run or not":    {left: []Remnant{run, secret}, named: true, age: time.Hour},
		"a straggling run is told of first":     {left: []Remnant{run}, age: time.Hour},
		"its finalizer gets some time":          {left: []Remnant{run}, named: true, age: 14 * time.Second},
		"then it keeps the guest alive no more": {left: []Remnant{run, run}, named: true, age: 15 * time.Second, want: true},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			if got := LetGo(row.left, row.named, instanceNow.Add(-row.age), instanceNow); got != row.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestDestroyPauseGrows(t *testing.T) {
	for age, want := range map[time.Duration]time.Duration{
		0: time.Second, 20 * time.Second: 5 * time.Second, time.Hour: 15 * time.Second, -time.Hour: time.Second,
	} {
		if got := DestroyPause(instanceNow.Add(-age), instanceNow); got != want {
			t.Errorf("after %s: %s, want %s", age, got, want)
		}
	}
}
