package kubevirt

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/test/rig/standins/cdi"
	"opdev.io/guestcluster/test/rig/standins/objects"
)

var start = metav1.NewTime(time.Unix(1_000_000, 0))

func machineWith(strategy string) *machine {
	m := &machine{Spec: machineSpec{RunStrategy: strategy}}
	m.Name, m.Namespace, m.UID, m.Finalizers = "disk", "clusters", "machine", []string{machineFinalizer}
	return m
}

func instanceIn(phase string, earlier ...string) *instance {
	i := &instance{Status: instanceStatus{Phase: phase}}
	i.Name, i.Namespace, i.UID = "disk", "clusters", "instance"
	for _, phase := range earlier {
		i.Status.Transitions = append(i.Status.Transitions, transition{phase, &start})
	}
	return i
}

func dataVolume(phase string, conditions ...objects.Condition) *cdi.DataVolume {
	v := &cdi.DataVolume{Status: cdi.Status{Phase: phase, Conditions: conditions}}
	v.Name = "disk"
	return v
}

func condition(kind, reason string) objects.Condition {
	return objects.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason}
}

func with(i *instance, c objects.Condition) *instance {
	i.Status.Conditions = append(i.Status.Conditions, c)
	return i
}

func deleted[T interface{ SetDeletionTimestamp(*metav1.Time) }](object T) T {
	object.SetDeletionTimestamp(&start)
	return object
}

func TestDecideMachine(t *testing.T) {
	waiting := machineWith(always)
	later := metav1.NewTime(start.Add(time.Minute))
	waiting.Status.StartFailure = &startFailure{Count: 2, RetryTimestamp: &later}
	asked := machineWith(rerunOnFailure)
	asked.Status.RunStrategy, asked.Status.StateChangeRequests = rerunOnFailure, []stateChange{{Action: "Start"}}
	finished := machineWith(rerunOnFailure)
	finished.Status.RunStrategy = rerunOnFailure
	fresh := machineWith(always)
	fresh.Finalizers = nil
	succeededVolume := []*cdi.DataVolume{dataVolume(cdi.Succeeded)}
	for _, row := range []struct {
		name  string
		facts machineFacts
		do    machineAction
		want  string
	}{
		{"a new machine gets a finalizer first", machineFacts{machine: fresh}, addMachineFinalizer, "Stopped"},
		{"Always starts", machineFacts{machine: machineWith(always)}, createInstance, "Starting"},
		{"Always starts anew after a failure", machineFacts{machine: machineWith(always), instance: instanceIn(failed, running)}, deleteInstance, "Stopped"},
		{"Always starts anew after success too", machineFacts{machine: machineWith(always), instance: instanceIn(succeeded, running)}, deleteInstance, "Stopped"},
		{"a machine that keeps failing waits", machineFacts{machine: waiting}, leaveMachine, "CrashLoopBackOff"},
		{"Halted stops", machineFacts{machine: machineWith(halted), instance: instanceIn(running)}, deleteInstance, "Stopping"},
		{"Halted stays stopped", machineFacts{machine: machineWith(halted)}, leaveMachine, "Stopped"},
		{"Manual waits to be asked", machineFacts{machine: machineWith("Manual")}, leaveMachine, "Stopped"},
		{"RerunOnFailure starts at first", machineFacts{machine: machineWith(rerunOnFailure)}, createInstance, "Starting"},
		{"RerunOnFailure starts after a failure", machineFacts{machine: asked}, createInstance, "Starting"},
		{"RerunOnFailure rests after success", machineFacts{machine: finished}, leaveMachine, "Stopped"},
		{"a deleted machine stops", machineFacts{machine: deleted(machineWith(always)), instance: instanceIn(running)}, deleteInstance, "Terminating"},
		{"it waits for its instance", machineFacts{machine: deleted(machineWith(always)), instance: deleted(instanceIn(running))}, leaveMachine, "Terminating"},
		{"and goes last", machineFacts{machine: deleted(machineWith(always))}, removeMachineFinalizer, "Terminating"},
		{"a running machine is left alone", machineFacts{machine: machineWith(always), instance: instanceIn(running), volumes: succeededVolume}, leaveMachine, "Running"},
		{
			"a missing claim is told before all else",
			machineFacts{machine: machineWith(always), instance: with(instanceIn(pending), condition("Synchronized", "FailedPvcNotFound"))},
			leaveMachine, "ErrorPvcNotFound",
		},
		{
			"a failing import is told",
			machineFacts{machine: machineWith(always), instance: instanceIn(pending), volumes: []*cdi.DataVolume{dataVolume(cdi.ImportInProgress, condition(cdi.Running, "Error"))}},
			leaveMachine, "DataVolumeError",
		},
		{
			"a pod without a node is told",
			machineFacts{machine: machineWith(always), instance: with(instanceIn(scheduling), condition("PodScheduled", "Unschedulable")), volumes: succeededVolume},
			leaveMachine, "ErrorUnschedulable",
		},
		{
			"a volume that is being filled is told",
			machineFacts{machine: machineWith(always), instance: instanceIn(pending), volumes: []*cdi.DataVolume{dataVolume(cdi.CloneInProgress)}, unbound: true},
			leaveMachine, "Provisioning",
		},
		{
			"a claim that waits for the pod is told",
			machineFacts{machine: machineWith(always), instance: instanceIn(scheduling), volumes: []*cdi.DataVolume{dataVolume(cdi.PendingPopulation)}, unbound: true},
			leaveMachine, "WaitingForVolumeBinding",
		},
		{"a pod that starts is told", machineFacts{machine: machineWith(always), instance: instanceIn(scheduled), volumes: succeededVolume}, leaveMachine, "Starting"},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := decideMachine(row.facts, start)
			if d.do != row.do || d.status.PrintableStatus != row.want {
				t.Errorf("got action %d status %q, want %d %q", d.do, d.status.PrintableStatus, row.do, row.want)
			}
			if d.status.Created != (row.facts.instance != nil) {
				t.Errorf("got created %v", d.status.Created)
			}
		})
	}
}

func TestStartFailuresAreCountedOnce(t *testing.T) {
	m := machineWith(always)
	for range 2 {
		d := decideMachine(machineFacts{machine: m, instance: instanceIn(failed, pending, scheduling)}, start)
		m.Status = d.status
	}
	if f := m.Status.StartFailure; f == nil || f.Count != 1 || !f.RetryTimestamp.Equal(&metav1.Time{Time: start.Add(crashInterval)}) {
		t.Errorf("got %+v, want one failure", m.Status.StartFailure)
	}
	second := instanceIn(failed, pending)
	second.UID = "second"
	m.Status = decideMachine(machineFacts{machine: m, instance: second}, start).status
	if f := m.Status.StartFailure; f.Count != 2 || f.RetryTimestamp.Sub(start.Time) != 4*crashInterval {
		t.Errorf("got %+v, want two failures", f)
	}
	m.Status = decideMachine(machineFacts{machine: m, instance: instanceIn(running, running)}, start).status
	if m.Status.StartFailure != nil {
		t.Errorf("got %+v after a start, want none", m.Status.StartFailure)
	}
}

func TestRerunOnFailureRemembersTheFailure(t *testing.T) {
	m := machineWith(rerunOnFailure)
	m.Status.RunStrategy = rerunOnFailure
	d := decideMachine(machineFacts{machine: m, instance: instanceIn(failed, running)}, start)
	if d.do != deleteInstance || len(d.status.StateChangeRequests) != 1 {
		t.Errorf("got action %d, requests %v", d.do, d.status.StateChangeRequests)
	}
	m.Status = d.status
	if d := decideMachine(machineFacts{machine: m, instance: instanceIn(pending)}, start); d.status.StateChangeRequests != nil {
		t.Errorf("got requests %v after the start", d.status.StateChangeRequests)
	}
}

func TestMachineMirrorsConditions(t *testing.T) {
	m := machineWith(always)
	m.Status.Conditions = []objects.Condition{condition("Stale", "")}
	d := decideMachine(machineFacts{machine: m, instance: with(instanceIn(running), objects.Condition{Type: "Ready", Status: metav1.ConditionTrue})}, start)
	if !d.status.Ready || len(d.status.Conditions) != 1 {
		t.Errorf("got ready %v, conditions %v", d.status.Ready, d.status.Conditions)
	}
	d = decideMachine(machineFacts{machine: machineWith(halted)}, start)
	if got := objects.Find(d.status.Conditions, "Ready"); got == nil || got.Reason != "VMINotExists" {
		t.Errorf("got %v without an instance", got)
	}
}
