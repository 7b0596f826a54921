package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Verdict is one answer of a decision: how a condition stands and why.
type Verdict struct {
	// OK is the condition's status.
	OK bool
	// Reason and Message say why.
	Reason  Reason
	Message string
}

func (v Verdict) status() metav1.ConditionStatus {
	if v.OK {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// MarkCapacity sets condition CapacityAvailable.
func (p *ClusterPool) MarkCapacity(v Verdict) { p.mark(ConditionCapacityAvailable, v) }

// MarkAllowed sets condition ProvisioningAllowed.
func (p *ClusterPool) MarkAllowed(v Verdict) { p.mark(ConditionProvisioningAllowed, v) }

// MarkHealthy sets condition ProvisioningHealthy.
func (p *ClusterPool) MarkHealthy(v Verdict) { p.mark(ConditionProvisioningHealthy, v) }

// MarkCurrent sets condition AllInstancesCurrent.
func (p *ClusterPool) MarkCurrent(v Verdict) { p.mark(ConditionAllInstancesCurrent, v) }

// MarkReady derives condition Ready: the first of ProvisioningAllowed and
// ProvisioningHealthy that is False gives its reason; a paused pool says so.
func (p *ClusterPool) MarkReady() {
	p.Status.ObservedGeneration = p.Generation
	for _, kind := range []string{ConditionProvisioningAllowed, ConditionProvisioningHealthy} {
		if c := meta.FindStatusCondition(p.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionFalse {
			p.mark(ConditionReady, Verdict{Reason: Reason(c.Reason), Message: c.Message})
			return
		}
	}
	v := Verdict{OK: true, Reason: ReasonPoolReady}
	if p.Spec.Paused {
		v = Verdict{OK: true, Reason: ReasonPaused, Message: "spec.paused is true: no instance is made or scaled down"}
	}
	p.mark(ConditionReady, v)
}

// MarkDeleting says what the pool's deletion waits for.
func (p *ClusterPool) MarkDeleting(reason Reason, message string) {
	p.Status.ObservedGeneration = p.Generation
	p.mark(ConditionReady, Verdict{Reason: reason, Message: message})
}

func (p *ClusterPool) mark(kind string, v Verdict) {
	setCondition(&p.Status.Conditions, p.Generation, kind, v.status(), v.Reason, v.Message)
}
