package kubevirt

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/test/rig/standins/cdi"
	"opdev.io/guestcluster/test/rig/standins/faults"
	"opdev.io/guestcluster/test/rig/standins/objects"
)

func podIn(phase corev1.PodPhase) *corev1.Pod {
	pod := &corev1.Pod{Status: corev1.PodStatus{Phase: phase}}
	pod.UID, pod.Spec.NodeName = "pod", "rig"
	if phase == corev1.PodRunning {
		pod.Status.PodIP = "10.244.0.9"
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return pod
}

func unscheduledPod() *corev1.Pod {
	pod := podIn(corev1.PodPending)
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes are available",
	}}
	return pod
}

func TestDecideInstance(t *testing.T) {
	ready := []*cdi.DataVolume{dataVolume(cdi.Succeeded)}
	waits := []*cdi.DataVolume{dataVolume(cdi.WaitForFirstConsumer)}
	populates := []*cdi.DataVolume{dataVolume(cdi.PendingPopulation)}
	clones := []*cdi.DataVolume{dataVolume(cdi.CloneInProgress)}
	for _, row := range []struct {
		name  string
		facts instanceFacts
		do    instanceAction
		want  string
	}{
		{"a filled disk gets a launcher", instanceFacts{instance: instanceIn(""), volumes: ready}, createLauncher, pending},
		{"so does one that a populator fills for its consumer", instanceFacts{instance: instanceIn(""), volumes: populates}, createLauncher, pending},
		{"one that waits for a consumer gets a temporary pod", instanceFacts{instance: instanceIn(""), volumes: waits}, createTemporary, pending},
		{"one pod of that kind is enough", instanceFacts{instance: instanceIn(pending), volumes: waits, temporary: podIn(corev1.PodPending)}, leaveInstance, pending},
		{"it goes when the disk is bound", instanceFacts{instance: instanceIn(pending), volumes: clones, temporary: podIn(corev1.PodRunning)}, deleteTemporary, pending},
		{"a disk that is being filled keeps the launcher back", instanceFacts{instance: instanceIn(pending), volumes: clones}, leaveInstance, pending},
		{"so does a missing claim", instanceFacts{instance: instanceIn(pending), missing: "disk"}, leaveInstance, pending},
		{"and a stall", instanceFacts{instance: instanceIn(pending), volumes: ready, faults: faults.Faults{faults.Stall: "true"}}, leaveInstance, pending},
		{"a disk that failed for good fails the instance", instanceFacts{instance: instanceIn(pending), volumes: []*cdi.DataVolume{dataVolume(cdi.Failed)}}, leaveInstance, failed},
		{"a launcher is being scheduled", instanceFacts{instance: instanceIn(pending), launcher: podIn(corev1.PodPending)}, leaveInstance, scheduling},
		{"a started launcher is handed to the node", instanceFacts{instance: instanceIn(scheduling), launcher: podIn(corev1.PodRunning)}, leaveInstance, scheduled},
		{"then the guest runs", instanceFacts{instance: instanceIn(scheduled), launcher: podIn(corev1.PodRunning)}, leaveInstance, running},
		{"a guest that switched itself off is done", instanceFacts{instance: instanceIn(running), launcher: podIn(corev1.PodSucceeded)}, leaveInstance, succeeded},
		{"a launcher that broke is a failure", instanceFacts{instance: instanceIn(running), launcher: podIn(corev1.PodFailed)}, leaveInstance, failed},
		{"so is one that vanished", instanceFacts{instance: instanceIn(running)}, leaveInstance, failed},
		{"a deleted instance ends its pods", instanceFacts{instance: deleted(instanceIn(running)), launcher: podIn(corev1.PodRunning)}, deletePods, running},
		{"is final without them", instanceFacts{instance: deleted(instanceIn(running))}, leaveInstance, succeeded},
		{"and goes", instanceFacts{instance: deleted(instanceIn(succeeded))}, removeInstanceFinalizer, succeeded},
		{"a deleted instance without pod fails", instanceFacts{instance: deleted(instanceIn(pending)), volumes: ready}, leaveInstance, failed},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := decideInstance(row.facts, start)
			if d.do != row.do || d.status.Phase != row.want {
				t.Errorf("got action %d phase %q, want %d %q", d.do, d.status.Phase, row.do, row.want)
			}
		})
	}
}

func runningFacts() instanceFacts {
	i := instanceIn(running)
	i.Spec.Domain.Devices.Interfaces = []device{{Name: "default"}}
	return instanceFacts{instance: i, launcher: podIn(corev1.PodRunning)}
}

func TestAddressIsThePodsWhileTheGuestRuns(t *testing.T) {
	f := runningFacts()
	got := decideInstance(f, start).status.Interfaces
	if len(got) != 1 || got[0].IP != "10.244.0.9" || got[0].Source != "domain" || got[0].Name != "default" {
		t.Errorf("got %+v", got)
	}
	f.faults = faults.Faults{faults.NoAddress: "true"}
	if got := decideInstance(f, start).status.Interfaces; got != nil {
		t.Errorf("got %+v in spite of the fault", got)
	}
	f = runningFacts()
	f.instance.Status.Phase = scheduling
	if got := decideInstance(f, start).status.Interfaces; got != nil {
		t.Errorf("got %+v before the guest runs", got)
	}
}

func TestConditionsOfAnUnscheduledInstance(t *testing.T) {
	d := decideInstance(instanceFacts{instance: instanceIn(scheduling), launcher: unscheduledPod()}, start)
	c := objects.Find(d.status.Conditions, "PodScheduled")
	if c == nil || c.Reason != "Unschedulable" || c.Message != "0/1 nodes are available" {
		t.Errorf("got %+v", c)
	}
	later := instanceIn(scheduled)
	later.Status.Conditions = d.status.Conditions
	d = decideInstance(instanceFacts{instance: later, launcher: podIn(corev1.PodRunning)}, start)
	if c := objects.Find(d.status.Conditions, "PodScheduled"); c != nil {
		t.Errorf("got %+v after it was scheduled", c)
	}
	if !objects.Is(d.status.Conditions, "Ready", metav1.ConditionTrue) {
		t.Errorf("got %+v of a ready pod", d.status.Conditions)
	}
}

func TestRefusedPodIsTold(t *testing.T) {
	d := decideInstance(instanceFacts{instance: instanceIn(pending), refusal: "exceeded quota"}, start)
	if c := objects.Find(d.status.Conditions, "Synchronized"); c == nil || c.Reason != "FailedCreate" {
		t.Errorf("got %+v", c)
	}
}

func TestDecisionsSettle(t *testing.T) {
	f := runningFacts()
	f.volumes = []*cdi.DataVolume{dataVolume(cdi.Succeeded)}
	first := decideInstance(f, start)
	f.instance.Status = first.status
	second := decideInstance(f, metav1.Now())
	for i := range first.status.Conditions {
		if first.status.Conditions[i] != second.status.Conditions[i] {
			t.Errorf("condition %d changes from %+v to %+v", i, first.status.Conditions[i], second.status.Conditions[i])
		}
	}
}
