package cdi

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/test/rig/standins/faults"
)

const errTooSmall = "target resources requests storage size is smaller than the source"

// facts are what a decision about one DataVolume stands on.
type facts struct {
	volume *DataVolume
	faults faults.Faults
	claim  *corev1.PersistentVolumeClaim
	// waits is true while the claim waits for a consumer.
	waits bool
	// populator is true when the claim is bound after it is filled.
	populator bool
	source    *corev1.PersistentVolumeClaim
	// users are running pods that mount the source.
	users    []string
	transfer transferState
}

// decision is what happens next to one DataVolume.
type decision struct {
	status Status
	do     action
	event  *event
}

type action int

const (
	nothing action = iota
	createClaim
	startTransfer
	// finish hands over a filled claim.
	finish
	// lookAgain is for what no object's change will tell.
	lookAgain
)

// event is on the DataVolume, or on its claim.
type event struct {
	kind, reason, message string
	onClaim               bool
}

// decide takes the first case that fits. Phases that need nobody to act follow
// each other because every write of a status leads to the next decision.
func decide(f facts, now metav1.Time) decision {
	d := decision{status: f.volume.Status}
	d.status.Conditions = append(d.status.Conditions[:0:0], d.status.Conditions...)
	switch phase := f.volume.Status.Phase; {
	case phase == Succeeded || phase == Failed:
		return d
	case f.claim == nil:
		d.beforeClaim(f)
	case !metav1.IsControlledBy(f.claim, f.volume):
		d.warn("ErrResourceExists", fmt.Sprintf("Resource %q already exists and is not managed by DataVolume", f.claim.Name))
		d.status.Phase = Pending
	case f.faults.Has(faults.FailFinally):
		d.status.Phase, d.status.ClaimName = Failed, f.claim.Name
		d.inform(verb(f)+"Failed", message(f, "failed"))
	default:
		d.withClaim(f)
	}
	d.conditions(f, now)
	return d
}

func (d *decision) beforeClaim(f facts) {
	switch {
	case f.volume.clones() && f.source == nil:
		d.warn("CloneWithoutSource", fmt.Sprintf("The source pvc %s doesn't exist", f.volume.Spec.Source.PVC.Name))
	case f.volume.clones() && f.volume.Spec.PVC != nil && requested(f.volume.Spec.PVC) < requested(&f.source.Spec):
		d.warn("CloneValidationFailed", "The clone doesn't meet the validation requirements: "+errTooSmall)
	default:
		d.do, d.status.Phase, d.status.Progress = createClaim, Pending, "N/A"
	}
}

func (d *decision) withClaim(f facts) {
	bound := f.claim.Status.Phase == corev1.ClaimBound
	filled := f.claim.Annotations[annotationPodPhase] == string(corev1.PodSucceeded)
	d.status.ClaimName = f.claim.Name
	switch {
	case filled && bound:
		d.succeed(f)
	case filled:
		d.status.Phase = RebindInProgress
	case f.waits && f.populator:
		d.status.Phase = PendingPopulation
	case f.waits:
		d.status.Phase = WaitForFirstConsumer
	case !bound && !f.populator:
		d.status.Phase = Pending
	case !f.populator && (d.status.Phase == "" || d.status.Phase == Pending || d.status.Phase == WaitForFirstConsumer):
		d.status.Phase = PVCBound
	case d.status.Phase != scheduled(f) && d.status.Phase != inProgress(f):
		d.status.Phase = scheduled(f)
		d.inform(scheduled(f), message(f, "scheduled"))
	default:
		d.transfer(f)
	}
}

func (d *decision) transfer(f facts) {
	idle := f.transfer.state == idle
	switch {
	case idle && f.source != nil && requested(&f.claim.Spec) < requested(&f.source.Spec):
		d.event = &event{kind: corev1.EventTypeWarning, reason: "ErrIncompatiblePVC", message: errTooSmall, onClaim: true}
		d.do = lookAgain
	case idle && len(f.users) > 0:
		d.event = &event{
			kind: corev1.EventTypeWarning, reason: "CloneSourceInUse", onClaim: true,
			message: fmt.Sprintf("pod %s using PersistentVolumeClaim %s", f.users[0], f.source.Name),
		}
		d.do = lookAgain
	case idle && f.faults.Has(faults.Stall):
		d.enter(f)
	case idle:
		d.enter(f)
		d.do = startTransfer
	case f.transfer.state == done:
		d.do = finish
	default:
		d.enter(f)
		d.status.Progress = fmt.Sprintf("%.2f%%", f.transfer.percent)
	}
	if f.transfer.state == failed {
		d.event = &event{kind: corev1.EventTypeWarning, reason: "Error", message: f.transfer.message}
	}
	d.status.RestartCount = max(d.status.RestartCount, f.transfer.restarts)
	if f.transfer.fatal {
		d.status.Phase = Failed
	}
}

// enter notes that bytes are about to move.
func (d *decision) enter(f facts) {
	if d.status.Phase != inProgress(f) {
		d.status.Phase = inProgress(f)
		d.inform(inProgress(f), message(f, "in progress"))
	}
}

func (d *decision) succeed(f facts) {
	d.status.Phase, d.status.Progress = Succeeded, "100.0%"
	text := fmt.Sprintf("Successfully imported into PVC %s", f.claim.Name)
	if f.volume.clones() {
		text = fmt.Sprintf("Successfully cloned from %s/%s into %s/%s",
			f.volume.Spec.Source.PVC.Namespace, f.volume.Spec.Source.PVC.Name, f.volume.Namespace, f.volume.Name)
	}
	d.inform(verb(f)+"Succeeded", text)
}

func (d *decision) warn(reason, message string) {
	d.event, d.do = &event{kind: corev1.EventTypeWarning, reason: reason, message: message}, lookAgain
}

func (d *decision) inform(reason, message string) {
	d.event = &event{kind: corev1.EventTypeNormal, reason: reason, message: message}
}

func verb(f facts) string {
	if f.volume.clones() {
		return "Clone"
	}
	return "Import"
}

func scheduled(f facts) string  { return verb(f) + "Scheduled" }
func inProgress(f facts) string { return verb(f) + "InProgress" }

func message(f facts, state string) string {
	if f.volume.clones() {
		return fmt.Sprintf("Cloning from %s/%s into %s/%s %s",
			f.volume.Spec.Source.PVC.Namespace, f.volume.Spec.Source.PVC.Name, f.volume.Namespace, f.volume.Name, state)
	}
	return fmt.Sprintf("Import into %s %s", f.claim.Name, state)
}

// simplify is what CDI makes of the many words for too little space.
func simplify(message string) string {
	for _, words := range []string{"is larger than the reported available", "no space left on device", "disk quota exceeded"} {
		if strings.Contains(message, words) {
			return "DataVolume too small to contain image"
		}
	}
	return message
}
