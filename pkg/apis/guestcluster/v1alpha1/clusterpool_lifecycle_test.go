package v1alpha1

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPoolReady(t *testing.T) {
	good := func(r Reason) Verdict { return Verdict{OK: true, Reason: r} }
	tests := map[string]struct {
		allowed, healthy Verdict
		paused           bool
		want             string
	}{
		"all is well":                     {good(ReasonNamespaceEnabled), good(ReasonProvisioningHealthy), false, "True PoolReady"},
		"a paused pool is Ready":          {good(ReasonNamespaceEnabled), good(ReasonProvisioningHealthy), true, "True Paused"},
		"the breaker is open":             {good(ReasonNamespaceEnabled), Verdict{Reason: ReasonBreakerOpen}, false, "False BreakerOpen"},
		"rights are missing":              {Verdict{Reason: ReasonAccessMissing}, good(ReasonProvisioningHealthy), true, "False AccessMissing"},
		"permission comes before failing": {Verdict{Reason: ReasonNamespaceDisabled}, Verdict{Reason: ReasonBreakerOpen}, false, "False NamespaceDisabled"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := &ClusterPool{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
			p.Spec.Paused = tt.paused
			p.MarkAllowed(tt.allowed)
			p.MarkHealthy(tt.healthy)
			p.MarkCapacity(Verdict{Reason: ReasonMaxSizeTooSmall})
			p.MarkCurrent(Verdict{Reason: ReasonStaleInstances})
			p.MarkReady()
			if got := told(p.Status.Conditions, ConditionReady); got != tt.want {
				t.Errorf("Ready is %q, want %q", got, tt.want)
			}
			if p.Status.ObservedGeneration != 2 || p.Status.Conditions[0].ObservedGeneration != 2 {
				t.Errorf("observedGeneration %d, of the condition %d", p.Status.ObservedGeneration, p.Status.Conditions[0].ObservedGeneration)
			}
		})
	}
}

func TestPoolVerdictsAreConditions(t *testing.T) {
	p := &ClusterPool{}
	p.MarkAllowed(Verdict{OK: true, Reason: ReasonNamespaceEnabled})
	p.MarkHealthy(Verdict{Reason: ReasonBreakerOpen})
	p.MarkCapacity(Verdict{Reason: ReasonAtCapacity})
	p.MarkCurrent(Verdict{OK: true, Reason: ReasonAllCurrent})
	for kind, want := range map[string]string{
		ConditionProvisioningAllowed: "True NamespaceEnabled",
		ConditionProvisioningHealthy: "False BreakerOpen",
		ConditionCapacityAvailable:   "False AtCapacity",
		ConditionAllInstancesCurrent: "True AllCurrent",
	} {
		if got := told(p.Status.Conditions, kind); got != want {
			t.Errorf("%s is %q, want %q", kind, got, want)
		}
	}
	p.MarkDeleting(ReasonWaitingForLeases, "1 is left")
	if got := told(p.Status.Conditions, ConditionReady); got != "False WaitingForLeases" {
		t.Errorf("Ready is %q", got)
	}
}
