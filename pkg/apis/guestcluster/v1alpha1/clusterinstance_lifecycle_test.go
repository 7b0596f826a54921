package v1alpha1

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var noon = metav1.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// told is a condition as a test states it.
func told(list []metav1.Condition, kind string) string {
	c := meta.FindStatusCondition(list, kind)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

func TestInstanceLifecycle(t *testing.T) {
	type step = func(*ClusterInstance)
	provisioned := step(func(i *ClusterInstance) { i.MarkProvisioned("4.19.3") })
	reachable := step(func(i *ClusterInstance) { i.MarkReachable(noon) })
	unreachable := step(func(i *ClusterInstance) { i.MarkUnreachable(ReasonGuestAPIUnreachable, "timeout") })
	running := step(func(i *ClusterInstance) { i.MarkProvisioning(ReasonRunRunning, "run r") })
	broke := step(func(i *ClusterInstance) { i.MarkFailed(FailureStatus{Reason: string(ReasonRunFailed), Message: "no"}) })
	notAllowed := step(func(i *ClusterInstance) { i.MarkNotAllowed(ReasonNamespaceDisabled, "label it") })
	deleted := step(func(i *ClusterInstance) { i.DeletionTimestamp = &noon })
	waits := step(func(i *ClusterInstance) { i.MarkDeleting("VirtualMachine x") })

	type outcome struct {
		Phase                         InstancePhase
		Ready, Provisioned, Reachable string
		IsReady, IsFailed             bool
	}
	tests := map[string]struct {
		steps []step
		want  outcome
	}{
		"new": {want: outcome{Phase: InstanceProvisioning}},
		"not allowed": {steps: []step{notAllowed}, want: outcome{Phase: InstanceProvisioning,
			Ready: "Unknown NamespaceDisabled", Provisioned: "Unknown NamespaceDisabled"}},
		"running": {steps: []step{running}, want: outcome{Phase: InstanceProvisioning,
			Ready: "Unknown RunRunning", Provisioned: "Unknown RunRunning"}},
		"provisioned, not probed": {steps: []step{running, provisioned}, want: outcome{Phase: InstanceProvisioning,
			Ready: "Unknown Probing", Provisioned: "True Provisioned"}},
		"an early answer does not make it Ready": {steps: []step{running, reachable}, want: outcome{Phase: InstanceProvisioning,
			Ready: "Unknown RunRunning", Provisioned: "Unknown RunRunning", Reachable: "True GuestAPIReachable"}},
		"ready": {steps: []step{running, provisioned, reachable}, want: outcome{Phase: InstanceReady, IsReady: true,
			Ready: "True InstanceReady", Provisioned: "True Provisioned", Reachable: "True GuestAPIReachable"}},
		"a second look at the run changes nothing": {steps: []step{provisioned, reachable, provisioned}, want: outcome{Phase: InstanceReady, IsReady: true,
			Ready: "True InstanceReady", Provisioned: "True Provisioned", Reachable: "True GuestAPIReachable"}},
		"ready stays when the namespace opts out": {steps: []step{provisioned, reachable, notAllowed}, want: outcome{Phase: InstanceReady, IsReady: true,
			Ready: "True InstanceReady", Provisioned: "True Provisioned", Reachable: "True GuestAPIReachable"}},
		"unreachable is not handed out but keeps its phase": {steps: []step{provisioned, reachable, unreachable}, want: outcome{Phase: InstanceReady,
			Ready: "False GuestAPIUnreachable", Provisioned: "True Provisioned", Reachable: "False GuestAPIUnreachable"}},
		"reachable again": {steps: []step{provisioned, reachable, unreachable, reachable}, want: outcome{Phase: InstanceReady, IsReady: true,
			Ready: "True InstanceReady", Provisioned: "True Provisioned", Reachable: "True GuestAPIReachable"}},
		"failed in its run": {steps: []step{running, broke}, want: outcome{Phase: InstanceFailed, IsFailed: true,
			Ready: "False RunFailed", Provisioned: "False RunFailed"}},
		"failed after Ready": {steps: []step{provisioned, reachable, broke}, want: outcome{Phase: InstanceFailed, IsFailed: true,
			Ready: "False RunFailed", Provisioned: "True Provisioned", Reachable: "True GuestAPIReachable"}},
		"failed for good: an answer does not revive it": {steps: []step{provisioned, broke, reachable}, want: outcome{Phase: InstanceFailed, IsFailed: true,
			Ready: "False RunFailed", Provisioned: "True Provisioned", Reachable: "True GuestAPIReachable"}},
		"failed keeps its reason when it is unreachable or not allowed": {steps: []step{provisioned, broke, unreachable, notAllowed}, want: outcome{Phase: InstanceFailed, IsFailed: true,
			Ready: "False RunFailed", Provisioned: "True Provisioned", Reachable: "False GuestAPIUnreachable"}},
		"terminating is never ready": {steps: []step{provisioned, reachable, deleted}, want: outcome{Phase: InstanceTerminating,
			Ready: "True InstanceReady", Provisioned: "True Provisioned", Reachable: "True GuestAPIReachable"}},
		"terminating says what it waits for": {steps: []step{provisioned, reachable, deleted, waits}, want: outcome{Phase: InstanceTerminating,
			Ready: "False Destroying", Provisioned: "True Provisioned", Reachable: "True GuestAPIReachable"}},
		"a failed one whose children go stays failed": {steps: []step{broke, waits}, want: outcome{Phase: InstanceFailed, IsFailed: true,
			Ready: "False RunFailed", Provisioned: "False RunFailed"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			i := instance("clusters", "crc-0", "uid")
			for _, mark := range tt.steps {
				mark(i)
			}
			i.MarkDerived()
			list := i.Status.Conditions
			got := outcome{i.Status.Phase, told(list, ConditionReady), told(list, ConditionProvisioned),
				told(list, ConditionGuestAPIReachable), i.IsReady(), i.IsFailed()}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("instance (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadyTimeIsTheFirst(t *testing.T) {
	i := instance("clusters", "crc-0", "uid")
	i.MarkProvisioned("4.19.3")
	i.MarkReachable(noon)
	i.MarkReachable(metav1.Time{Time: noon.Add(time.Hour)})
	if !i.Status.ReadyTime.Equal(&noon) {
		t.Errorf("readyTime %s", i.Status.ReadyTime)
	}
}

func TestTheFirstFailureStays(t *testing.T) {
	i := instance("clusters", "crc-0", "uid")
	i.MarkFailed(FailureStatus{Reason: "RunFailed", Message: strings.Repeat("x", 5000), Instance: "other", InstanceUID: "other"})
	i.MarkFailed(FailureStatus{Reason: "RunLost"})
	got := i.Status.Failure
	if got.Reason != "RunFailed" || got.Instance != "crc-0" || got.InstanceUID != "uid" || len(got.Message) != maxConditionMessage {
		t.Errorf("failure %+v", got)
	}
}

func TestVersionMismatch(t *testing.T) {
	tests := map[string]struct{ wanted, want string }{
		"the template asks for none":    {},
		"the guest reports it":          {wanted: "4.19.3", want: "False VersionMatches"},
		"the guest reports another one": {wanted: "4.20.0", want: "True VersionDiffers"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			i := instance("clusters", "crc-0", "uid")
			i.Spec.Template.OCPVersion = tt.wanted
			i.MarkProvisioned("4.19.3")
			if got := told(i.Status.Conditions, ConditionVersionMismatch); got != tt.want || i.Status.OCPVersion != "4.19.3" {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestDeletingNamesWhatItWaitsFor(t *testing.T) {
	i := instance("clusters", "crc-0", "uid")
	i.MarkDeleting("VirtualMachine x")
	if got := told(i.Status.Conditions, ConditionDeleting); got != "True DestroyWaiting" {
		t.Errorf("got %q", got)
	}
	i.MarkDeleting("")
	if got := told(i.Status.Conditions, ConditionDeleting); got != "False Destroyed" {
		t.Errorf("got %q", got)
	}
}

func TestLeaseRefRepeatsTheClaim(t *testing.T) {
	i, l := instance("clusters", "crc-0", "uid"), newLease()
	i.Generation = 7
	i.MarkDerived()
	if i.Status.LeaseRef != nil || i.ClaimedBy(l) {
		t.Error("an open instance is claimed")
	}
	claim := l.Claim()
	i.Spec.ClaimRef = &claim
	i.MarkDerived()
	want := &ObjectReference{Namespace: "ci", Name: "run", UID: "lease-uid"}
	if diff := cmp.Diff(want, i.Status.LeaseRef); diff != "" || !i.ClaimedBy(l) || i.Status.ObservedGeneration != 7 {
		t.Errorf("leaseRef (-want +got):\n%s", diff)
	}
	l.UID = "next-lease-of-that-name"
	if i.ClaimedBy(l) {
		t.Error("a lease of the same name holds the claim")
	}
}

func TestAssignedAndRun(t *testing.T) {
	i := instance("clusters", "crc-0", "uid")
	i.Spec.Type = TypeCRC
	i.MarkAssigned("https://x.apps:443", "crc-0-kubeconfig")
	i.MarkRun(RunStatus{Name: "r", UID: "r-uid", Attempt: 1})
	i.MarkAllowed()
	want := ClusterInstanceStatus{Topology: "crc", APIEndpoint: "https://x.apps:443",
		KubeconfigSecretRef: &LocalReference{Name: "crc-0-kubeconfig"}, Run: &RunStatus{Name: "r", UID: "r-uid", Attempt: 1}}
	if got := told(i.Status.Conditions, ConditionProvisioningAllowed); got != "True NamespaceEnabled" {
		t.Errorf("allowed %q", got)
	}
	i.Status.Conditions = nil
	if diff := cmp.Diff(want, i.Status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestTruncate(t *testing.T) {
	tests := map[string]struct {
		text string
		n    int
		want string
	}{
		"a short text stays":           {"abc", 3, "abc"},
		"a long text is cut":           {"abcd", 3, "abc"},
		"a character is never cut":     {"aé", 2, "a"},
		"nothing fits into no room":    {"é", 0, ""},
		"what is no text is still cut": {"\x80\x80\x80", 2, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Truncate(tt.text, tt.n); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
