package kubevirt

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/test/rig/standins/cdi"
	"opdev.io/guestcluster/test/rig/standins/objects"
)

// conditions follow the pod and the volumes. A condition without status does
// not apply now.
func (d *instanceDecision) conditions(f instanceFacts, now metav1.Time) {
	for _, c := range []objects.Condition{
		f.podReady(), f.volumesReady(), f.synchronized(), d.provisioning(f), d.unscheduled(f), d.migratable(),
	} {
		if c.Status == "" {
			d.status.Conditions = objects.Remove(d.status.Conditions, c.Type)
			continue
		}
		d.status.Conditions = objects.Set(d.status.Conditions, c, now)
	}
}

func (f instanceFacts) podReady() objects.Condition {
	c := objects.Condition{Type: "Ready", Status: metav1.ConditionFalse}
	switch {
	case f.launcher == nil:
		c.Reason, c.Message = "PodNotExists", "virt-launcher pod has not yet been scheduled"
	case f.launcher.DeletionTimestamp != nil:
		c.Reason, c.Message = "PodTerminating", "virt-launcher pod is terminating"
	case f.instance.Status.Phase != running && f.instance.Status.Phase != scheduled:
		c.Reason, c.Message = "GuestNotRunning", "Guest VM is not reported as running"
	default:
		c.Reason, c.Message = "PodConditionMissing", "virt-launcher pod is missing the Ready condition"
		for _, ready := range f.launcher.Status.Conditions {
			if ready.Type == corev1.PodReady {
				c.Status, c.Reason, c.Message = metav1.ConditionStatus(ready.Status), ready.Reason, ready.Message
			}
		}
	}
	return c
}

func (f instanceFacts) volumesReady() objects.Condition {
	c := objects.Condition{Type: "DataVolumesReady"}
	if len(f.volumes) == 0 {
		return c
	}
	c.Status, c.Reason, c.Message = metav1.ConditionTrue, "AllDVsReady", "All of the VMI's DVs are bound and ready"
	for _, v := range f.volumes {
		if !objects.Is(v.Status.Conditions, cdi.Ready, metav1.ConditionTrue) {
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, "NotAllDVsReady", "Not all of the VMI's DVs are ready"
		}
	}
	return c
}

func (f instanceFacts) synchronized() objects.Condition {
	c := objects.Condition{Type: "Synchronized"}
	switch {
	case f.missing != "" && f.instance.unprocessed():
		c.Status, c.Reason = metav1.ConditionFalse, "FailedPvcNotFound"
		c.Message = fmt.Sprintf("PVC %s/%s does not exist, waiting for it to appear", f.instance.Namespace, f.missing)
	case f.refusal != "" && f.launcher == nil:
		c.Status, c.Reason = metav1.ConditionFalse, "FailedCreate"
		c.Message = "failed to create virtual machine pod: " + f.refusal
	}
	return c
}

func (d *instanceDecision) provisioning(f instanceFacts) objects.Condition {
	c := objects.Condition{Type: "Provisioning"}
	if d.status.Phase == pending && f.anyPhase(cdi.WaitForFirstConsumer) {
		c.Status = metav1.ConditionTrue
	}
	return c
}

// unscheduled is the scheduler's answer while it finds no node, or what
// KubeVirt says when there is no pod for want of a claim.
func (d *instanceDecision) unscheduled(f instanceFacts) objects.Condition {
	c := objects.Condition{Type: string(corev1.PodScheduled)}
	if d.status.Phase != pending && d.status.Phase != scheduling {
		return c
	}
	if f.missing != "" {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, corev1.PodReasonUnschedulable, f.synchronized().Message
	}
	for _, pod := range []*corev1.Pod{f.launcher, f.temporary} {
		if pod == nil {
			continue
		}
		for _, found := range pod.Status.Conditions {
			if found.Type == corev1.PodScheduled && found.Status == corev1.ConditionFalse {
				c.Status, c.Reason, c.Message = metav1.ConditionFalse, found.Reason, found.Message
			}
		}
	}
	return c
}

func (d *instanceDecision) migratable() objects.Condition {
	c := objects.Condition{Type: "LiveMigratable"}
	if d.status.Phase == running {
		c.Status, c.Reason = metav1.ConditionFalse, "DisksNotLiveMigratable"
		c.Message = "cannot migrate VMI: PVC is not shared, live migration requires that all PVCs must be shared (using ReadWriteMany access mode)"
	}
	return c
}
