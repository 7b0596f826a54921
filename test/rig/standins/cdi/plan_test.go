package cdi

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/test/rig/standins/faults"
	"opdev.io/guestcluster/test/rig/standins/objects"
)

func volumeIn(phase string, source Source) *DataVolume {
	v := &DataVolume{Spec: Spec{Source: &source, Storage: spec("80Gi")}, Status: Status{Phase: phase}}
	v.Name, v.Namespace, v.UID = "disk", "clusters", "uid"
	return v
}

func claimOf(v *DataVolume, phase corev1.PersistentVolumeClaimPhase, filled bool) *corev1.PersistentVolumeClaim {
	claim := buildClaim(v, nil, false)
	claim.Status.Phase = phase
	if filled {
		claim.Annotations[annotationPodPhase] = "Succeeded"
	}
	return claim
}

var (
	cloning   = Source{PVC: &PVCSource{Namespace: "golden", Name: "image"}}
	importing = Source{HTTP: &HTTPSource{URL: "https://mirror.test/disk.qcow2"}}
	golden    = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "image"}, Spec: *spec("33Gi")}
	larger    = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "image"}, Spec: *spec("100Gi")}
)

// row is a DataVolume in a phase, and what becomes of it.
type row struct {
	name   string
	phase  string
	source Source
	// claim is the claim's phase; empty is no claim.
	claim  corev1.PersistentVolumeClaimPhase
	filled bool
	change func(*facts)

	want    string
	do      action
	event   string
	running string
}

func TestDecide(t *testing.T) {
	fault := func(name, value string) func(*facts) {
		return func(f *facts) { f.faults, f.source = faults.Faults{name: value}, golden }
	}
	moves := func(s transferState) func(*facts) {
		return func(f *facts) { f.transfer, f.source = s, golden }
	}
	const pendingClaim, boundClaim = corev1.ClaimPending, corev1.ClaimBound
	for _, r := range []row{
		{name: "a new import gets a claim", source: importing, want: Pending, do: createClaim},
		{name: "a new clone gets a claim", source: cloning, change: func(f *facts) { f.source = golden }, want: Pending, do: createClaim},
		{name: "a clone of nothing gets no claim and no phase", source: cloning, do: lookAgain, event: "CloneWithoutSource"},
		{
			name: "a clone in the pvc form is compared before there is a claim", source: cloning, do: lookAgain, event: "CloneValidationFailed",
			change: func(f *facts) { f.source, f.volume.Spec.PVC, f.volume.Spec.Storage = golden, spec("20Gi"), nil },
		},
		{
			name: "somebody else's claim is left alone", phase: Pending, source: importing, claim: boundClaim, want: Pending,
			change: func(f *facts) { f.claim.OwnerReferences = nil }, do: lookAgain, event: "ErrResourceExists",
		},
		{
			name: "a populator waits in its own phase", phase: Pending, source: cloning, claim: pendingClaim, want: PendingPopulation,
			change: func(f *facts) { f.waits, f.populator, f.source = true, true, golden },
		},
		{
			name: "the legacy flow waits in its own phase", phase: Pending, source: importing, claim: pendingClaim, want: WaitForFirstConsumer,
			change: func(f *facts) { f.waits = true },
		},
		{name: "an unbound claim is pending", phase: Pending, source: importing, claim: pendingClaim, want: Pending},
		{name: "a bound claim is told", phase: WaitForFirstConsumer, source: importing, claim: boundClaim, want: PVCBound},
		{name: "then the import is scheduled", phase: PVCBound, source: importing, claim: boundClaim, want: ImportScheduled, event: "ImportScheduled"},
		{
			name: "a scheduled import starts", phase: ImportScheduled, source: importing, claim: boundClaim,
			want: ImportInProgress, do: startTransfer, event: "ImportInProgress", running: "Pod is running",
		},
		{
			name: "a populator clones into an unbound claim", phase: CloneScheduled, source: cloning, claim: pendingClaim,
			change: func(f *facts) { f.populator, f.source = true, golden }, want: CloneInProgress, do: startTransfer, event: "CloneInProgress", running: "Pod is running",
		},
		{
			name: "a clone waits for the source's users", phase: CloneScheduled, source: cloning, claim: boundClaim, want: CloneScheduled,
			change: func(f *facts) { f.users, f.source = []string{"golden/writer"}, golden }, do: lookAgain, event: "CloneSourceInUse",
		},
		{
			name: "a clone of a larger claim never starts", phase: CloneScheduled, source: cloning, claim: boundClaim, want: CloneScheduled,
			change: func(f *facts) { f.source = larger }, do: lookAgain, event: "ErrIncompatiblePVC",
		},
		{
			name: "a stalled clone seems to run", phase: CloneScheduled, source: cloning, claim: boundClaim, change: fault(faults.Stall, "true"),
			want: CloneInProgress, event: "CloneInProgress", running: "Pod is running",
		},
		{
			name: "a failed attempt is no failed phase", phase: ImportInProgress, source: importing, claim: boundClaim,
			change: moves(transferState{state: failed, message: "no route", restarts: 3}), want: ImportInProgress, event: "Error", running: "Error",
		},
		{
			name: "a wrong checksum is", phase: ImportInProgress, source: importing, claim: boundClaim,
			change: moves(transferState{state: failed, message: "checksum mismatch", fatal: true}), want: Failed, event: "Error", running: "Error",
		},
		{
			name: "a fault may fail for good", phase: Pending, source: cloning, claim: pendingClaim, change: fault(faults.FailFinally, "broken"),
			want: Failed, event: "CloneFailed", running: "Error",
		},
		{
			name: "a filled claim is handed over", phase: CloneInProgress, source: cloning, claim: pendingClaim,
			change: moves(transferState{state: done, percent: 100}), want: CloneInProgress, do: finish, running: "Pod is running",
		},
		{name: "a populator's claim is bound then", phase: CloneInProgress, source: cloning, claim: pendingClaim, filled: true, want: RebindInProgress, running: "Completed"},
		{name: "a bound and filled claim is success", phase: CloneInProgress, source: cloning, claim: boundClaim, filled: true, want: Succeeded, event: "CloneSucceeded", running: "Completed"},
		{name: "success is final", phase: Succeeded, source: cloning, want: Succeeded},
	} {
		t.Run(r.name, func(t *testing.T) { r.check(t) })
	}
}

func (r row) check(t *testing.T) {
	f := facts{volume: volumeIn(r.phase, r.source)}
	if r.claim != "" {
		f.claim = claimOf(f.volume, r.claim, r.filled)
	}
	if r.change != nil {
		r.change(&f)
	}
	// A change of the transfer alone needs no populator: an unbound claim does.
	f.populator = f.populator || r.claim == corev1.ClaimPending && r.phase == CloneInProgress
	d := decide(f, metav1.NewTime(time.Unix(0, 0)))
	if d.status.Phase != r.want || d.do != r.do {
		t.Errorf("got phase %q action %d, want %q %d", d.status.Phase, d.do, r.want, r.do)
	}
	if got := reasonOf(d.event); got != r.event {
		t.Errorf("got event %q, want %q", got, r.event)
	}
	if c := objects.Find(d.status.Conditions, Running); c != nil && c.Reason != r.running {
		t.Errorf("got reason %q of Running, want %q", c.Reason, r.running)
	}
	ready := objects.Is(d.status.Conditions, Ready, metav1.ConditionTrue)
	if len(d.status.Conditions) > 0 && ready != (r.want == Succeeded) {
		t.Errorf("got Ready %v in phase %s", ready, d.status.Phase)
	}
}

func reasonOf(e *event) string {
	if e == nil {
		return ""
	}
	return e.reason
}

func TestRestartsOnlyGrow(t *testing.T) {
	v := volumeIn(ImportInProgress, importing)
	v.Status.RestartCount = 7
	d := decide(facts{volume: v, claim: claimOf(v, corev1.ClaimBound, false), transfer: transferState{state: moving, restarts: 2}}, metav1.Now())
	if d.status.RestartCount != 7 {
		t.Errorf("got %d restarts, want 7", d.status.RestartCount)
	}
}

func TestSimplify(t *testing.T) {
	for text, want := range map[string]string{
		"write: no space left on device":                               "DataVolume too small to contain image",
		"virtual image size 2 is larger than the reported available 1": "DataVolume too small to contain image",
		"expected status code 200, got 404. Status: 404 Not Found":     "expected status code 200, got 404. Status: 404 Not Found",
	} {
		if got := simplify(text); got != want {
			t.Errorf("%q: got %q", text, got)
		}
	}
}
