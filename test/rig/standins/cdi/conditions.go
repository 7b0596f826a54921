package cdi

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/test/rig/standins/faults"
	"opdev.io/guestcluster/test/rig/standins/objects"
)

// conditions derives the three conditions from the phase just decided.
func (d *decision) conditions(f facts, now metav1.Time) {
	running := d.running(f)
	for _, c := range []objects.Condition{d.bound(f), d.ready(f, running), running} {
		d.status.Conditions = objects.Set(d.status.Conditions, c, now)
	}
}

func (d *decision) bound(f facts) objects.Condition {
	c := objects.Condition{Type: Bound, Status: metav1.ConditionFalse}
	switch {
	case f.claim == nil && d.refused():
		c.Reason, c.Message = d.event.reason, d.event.message
	case f.claim == nil:
		c.Reason, c.Message = "NotFound", "No PVC found"
	case f.claim.Status.Phase == corev1.ClaimBound:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, "Bound", fmt.Sprintf("PVC %s Bound", f.claim.Name)
	default:
		c.Reason, c.Message = "Pending", fmt.Sprintf("PVC %s Pending", f.claim.Name)
	}
	return c
}

func (d *decision) refused() bool { return d.event != nil && d.event.kind == corev1.EventTypeWarning }

func (d *decision) ready(f facts, running objects.Condition) objects.Condition {
	c := objects.Condition{Type: Ready, Status: metav1.ConditionFalse}
	switch {
	case f.claim == nil && d.refused():
		c.Reason, c.Message = d.event.reason, d.event.message
	case d.status.Phase == Succeeded:
		c.Status = metav1.ConditionTrue
	case running.Status == metav1.ConditionTrue:
		c.Reason = "TransferRunning"
	}
	return c
}

// running speaks of the importer pod, which an error ends and which starts
// again: CDI has no other word for a failed attempt.
func (d *decision) running(f facts) objects.Condition {
	c := objects.Condition{Type: Running, Status: metav1.ConditionFalse}
	switch {
	case f.faults.Has(faults.FailFinally) && d.status.Phase == Failed:
		c.Reason, c.Message = "Error", f.faults[faults.FailFinally]
	case f.transfer.state == failed:
		c.Reason, c.Message = "Error", f.transfer.message
	case d.status.Phase == Succeeded || d.status.Phase == RebindInProgress:
		c.Reason, c.Message = "Completed", verb(f)+" Complete"
	case d.status.Phase == inProgress(f):
		c.Status, c.Reason = metav1.ConditionTrue, "Pod is running"
	}
	return c
}
