package kubevirt

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/test/rig/standins/cdi"
	"opdev.io/guestcluster/test/rig/standins/objects"
)

const (
	// crashInterval is a tenth of KubeVirt's, and so is the longest delay.
	crashInterval = time.Second
	longestDelay  = 30 * time.Second
)

// machineFacts are what a decision about one VirtualMachine stands on.
type machineFacts struct {
	machine  *machine
	instance *instance
	volumes  []*cdi.DataVolume
	// unbound is true while a claim of the machine is not bound.
	unbound bool
}

type machineAction int

const (
	leaveMachine machineAction = iota
	createInstance
	deleteInstance
	addMachineFinalizer
	removeMachineFinalizer
)

type machineDecision struct {
	status machineStatus
	do     machineAction
	// after tells when to look again; zero is never.
	after time.Duration
}

func decideMachine(f machineFacts, now metav1.Time) machineDecision {
	d := machineDecision{status: f.machine.Status}
	d.status.Conditions = slices.Clone(f.machine.Status.Conditions)
	d.countFailures(f, now)
	switch {
	case f.machine.DeletionTimestamp != nil && f.instance == nil:
		d.do = removeMachineFinalizer
	case f.machine.DeletionTimestamp != nil:
		d.stop(f)
	case !slices.Contains(f.machine.Finalizers, machineFinalizer):
		d.do = addMachineFinalizer
	default:
		d.follow(f, now)
	}
	d.status.Created = f.instance != nil
	d.status.Ready = f.instance != nil && objects.Is(f.instance.Status.Conditions, "Ready", metav1.ConditionTrue)
	d.status.RunStrategy = f.machine.strategy()
	d.status.ObservedGeneration, d.status.DesiredGeneration = f.machine.Generation, f.machine.Generation
	d.mirror(f, now)
	d.status.PrintableStatus = printable(f, d)
	return d
}

// follow does what the run strategy says. Manual waits for requests that come
// through subresources, which the rig has none of.
func (d *machineDecision) follow(f machineFacts, now metav1.Time) {
	switch f.machine.strategy() {
	case always:
		if f.instance == nil {
			d.start(now)
		} else if f.instance.final() {
			d.stop(f)
		}
	case rerunOnFailure:
		asked := len(d.status.StateChangeRequests) > 0
		switch {
		case f.instance == nil && (asked || f.machine.Status.RunStrategy != rerunOnFailure):
			d.start(now)
		case f.instance != nil && f.instance.final() && f.instance.DeletionTimestamp == nil:
			if f.instance.Status.Phase == failed {
				d.status.StateChangeRequests = []stateChange{{Action: "Start"}}
			}
			d.stop(f)
		case f.instance != nil && !f.instance.final():
			d.status.StateChangeRequests = nil
		}
	case once:
		if f.instance == nil && f.machine.Status.RunStrategy != once {
			d.start(now)
		}
	case halted:
		d.stop(f)
	}
}

func (d *machineDecision) start(now metav1.Time) {
	if failure := d.status.StartFailure; failure != nil && failure.RetryTimestamp != nil {
		if left := failure.RetryTimestamp.Sub(now.Time); left > 0 {
			d.after = left
			return
		}
	}
	d.do = createInstance
}

func (d *machineDecision) stop(f machineFacts) {
	if f.instance != nil && f.instance.DeletionTimestamp == nil {
		d.do = deleteInstance
	}
}

// countFailures counts instances in a row that ended before they ran.
func (d *machineDecision) countFailures(f machineFacts, now metav1.Time) {
	strategy := f.machine.strategy()
	counted := d.status.StartFailure
	switch {
	case strategy != always && strategy != rerunOnFailure && strategy != once, f.instance != nil && f.instance.ran():
		d.status.StartFailure = nil
	case f.instance != nil && f.instance.final() && (counted == nil || counted.LastFailed != f.instance.UID):
		next := startFailure{Count: 1, LastFailed: f.instance.UID}
		if counted != nil {
			next.Count = counted.Count + 1
		}
		retry := metav1.NewTime(now.Add(min(crashInterval*time.Duration(next.Count*next.Count), longestDelay)))
		next.RetryTimestamp = &retry
		d.status.StartFailure = &next
	}
}

// mirror copies the instance's conditions.
func (d *machineDecision) mirror(f machineFacts, now metav1.Time) {
	ready := objects.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "VMINotExists", Message: "VMI does not exist"}
	kept := map[string]bool{"Ready": true}
	if f.instance != nil {
		ready.Reason, ready.Message = "VMIConditionMissing", "VMI is missing the Ready condition"
		for _, c := range f.instance.Status.Conditions {
			kept[c.Type] = true
			if c.Type == "Ready" {
				ready = c
				continue
			}
			d.status.Conditions = objects.Set(d.status.Conditions, c, now)
		}
		d.status.Conditions = slices.DeleteFunc(d.status.Conditions, func(c objects.Condition) bool { return !kept[c.Type] })
	}
	d.status.Conditions = objects.Set(d.status.Conditions, ready, now)
}

// printable is the first word that fits, in KubeVirt's order; a later word may
// be as true.
func printable(f machineFacts, d machineDecision) string {
	i := f.instance
	stopped := i == nil && d.do != createInstance
	for _, word := range []struct {
		text string
		fits bool
	}{
		{"Terminating", f.machine.DeletionTimestamp != nil},
		{"Stopping", i != nil && !i.final() && (i.DeletionTimestamp != nil || d.do == deleteInstance)},
		{"Running", i != nil && i.Status.Phase == running},
		{"ErrorPvcNotFound", i != nil && reason(i, "Synchronized") == "FailedPvcNotFound"},
		{"DataVolumeError", anyVolume(f.volumes, broken)},
		{"ErrorUnschedulable", i != nil && reason(i, string(corev1.PodScheduled)) == corev1.PodReasonUnschedulable},
		{"Provisioning", anyVolume(f.volumes, provisioning)},
		{"WaitingForVolumeBinding", f.unbound && (f.machine.strategy() == always || i != nil && !i.final())},
		{"Starting", d.do == createInstance || i != nil && (i.unprocessed() || i.Status.Phase == scheduling || i.Status.Phase == scheduled)},
		{"CrashLoopBackOff", d.status.StartFailure != nil && d.do != createInstance},
		{"Stopped", stopped || i != nil && i.final()},
	} {
		if word.fits {
			return word.text
		}
	}
	return "Unknown"
}

// reason is that of a False condition, or empty.
func reason(i *instance, kind string) string {
	if c := objects.Find(i.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionFalse {
		return c.Reason
	}
	return ""
}

func anyVolume(all []*cdi.DataVolume, is func(*cdi.DataVolume) bool) bool {
	return slices.ContainsFunc(all, is)
}

func broken(v *cdi.DataVolume) bool {
	c := objects.Find(v.Status.Conditions, cdi.Running)
	return v.Status.Phase == cdi.Failed || c != nil && c.Status == metav1.ConditionFalse && c.Reason == "Error"
}

func provisioning(v *cdi.DataVolume) bool {
	if v.Status.Phase == cdi.Succeeded || v.Status.Phase == cdi.PendingPopulation {
		return false
	}
	return v.Status.Phase != cdi.WaitForFirstConsumer || objects.Is(v.Status.Conditions, cdi.Bound, metav1.ConditionTrue)
}
