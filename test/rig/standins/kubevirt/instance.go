package kubevirt

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/test/rig/standins/cdi"
	"opdev.io/guestcluster/test/rig/standins/faults"
)

// instanceFacts are what a decision about one instance stands on.
type instanceFacts struct {
	instance *instance
	faults   faults.Faults
	volumes  []*cdi.DataVolume
	// missing is a claim that is not there, or empty.
	missing string
	// launcher runs the guest; temporary only waits for claims to bind.
	launcher  *corev1.Pod
	temporary *corev1.Pod
	// refusal is the API server's answer to the last try to make a pod.
	refusal string
}

type instanceAction int

const (
	leaveInstance instanceAction = iota
	createLauncher
	createTemporary
	deleteTemporary
	deletePods
	removeInstanceFinalizer
)

type instanceDecision struct {
	status instanceStatus
	do     instanceAction
}

func decideInstance(f instanceFacts, now metav1.Time) instanceDecision {
	d := instanceDecision{status: f.instance.Status}
	d.status.Conditions = slices.Clone(f.instance.Status.Conditions)
	d.status.Interfaces = slices.Clone(f.instance.Status.Interfaces)
	d.do = f.action()
	d.advance(f)
	d.conditions(f, now)
	if d.status.Phase != f.instance.Status.Phase {
		d.status.Transitions = append(slices.Clone(d.status.Transitions), transition{d.status.Phase, &now})
	}
	return d
}

func (f instanceFacts) action() instanceAction {
	waits := f.anyPhase(cdi.WaitForFirstConsumer)
	switch {
	case f.instance.DeletionTimestamp != nil && f.launcher == nil && f.temporary == nil:
		if f.instance.final() {
			return removeInstanceFinalizer
		}
		return leaveInstance
	case f.instance.DeletionTimestamp != nil:
		return deletePods
	case f.temporary != nil && !waits:
		return deleteTemporary
	case f.instance.final() || !f.instance.unprocessed() || f.launcher != nil || f.temporary != nil || f.missing != "":
		return leaveInstance
	case f.faults.Has(faults.Stall) || !f.ready():
		return leaveInstance
	case waits:
		return createTemporary
	}
	return createLauncher
}

// ready as KubeVirt has it: a volume that waits for a consumer does not keep
// the pod back, because the pod is the consumer.
func (f instanceFacts) ready() bool {
	return !slices.ContainsFunc(f.volumes, func(v *cdi.DataVolume) bool {
		return v.Status.Phase != cdi.Succeeded && v.Status.Phase != cdi.PendingPopulation && v.Status.Phase != cdi.WaitForFirstConsumer
	})
}

func (f instanceFacts) anyPhase(phase string) bool {
	return slices.ContainsFunc(f.volumes, func(v *cdi.DataVolume) bool { return v.Status.Phase == phase })
}

// advance moves the phase. Scheduled and Running are two steps because two
// programs take them in KubeVirt: the controller and the node's handler.
func (d *instanceDecision) advance(f instanceFacts) {
	switch phase := f.instance.Status.Phase; {
	case f.instance.final():
	case f.instance.unprocessed() && f.launcher != nil:
		d.status.Phase = scheduling
	case f.instance.unprocessed():
		d.status.Phase = pending
		if f.instance.DeletionTimestamp != nil || f.anyPhase(cdi.Failed) {
			d.status.Phase = failed
		}
	case f.launcher == nil:
		d.status.Phase = failed
		if phase == running && f.instance.DeletionTimestamp != nil {
			d.status.Phase = succeeded
		}
	case f.launcher.Status.Phase == corev1.PodSucceeded:
		d.status.Phase = succeeded
	case f.launcher.Status.Phase == corev1.PodFailed:
		d.status.Phase = failed
	case phase == scheduling && started(f.launcher):
		d.status.Phase, d.status.NodeName = scheduled, f.launcher.Spec.NodeName
		d.status.ActivePods = map[types.UID]string{f.launcher.UID: f.launcher.Spec.NodeName}
	case phase == scheduled || phase == running:
		d.status.Phase = running
		d.status.Interfaces = f.addresses()
	}
	if d.status.Phase != running {
		d.status.Interfaces = nil
	}
}

// started ignores readiness: a probe of the guest decides about that.
func started(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil || pod.Status.PodIP == "" {
		return false
	}
	return !slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Running == nil })
}

// addresses are known without a guest agent when the network is masqueraded:
// the pod's address stands for the guest's.
func (f instanceFacts) addresses() []address {
	if f.faults.Has(faults.NoAddress) {
		return nil
	}
	var all []address
	for _, i := range f.instance.Spec.Domain.Devices.Interfaces {
		a := address{
			Name: i.Name, IP: f.launcher.Status.PodIP, IPs: []string{f.launcher.Status.PodIP}, MAC: i.MAC,
			Source: "domain", Link: "up", PodDevice: "eth0", QueueCount: 1,
		}
		if a.MAC == "" {
			a.MAC = hardwareAddress(f.instance.UID, i.Name)
		}
		all = append(all, a)
	}
	return all
}

// hardwareAddress is a locally administered one that stays the same.
func hardwareAddress(uid types.UID, name string) string {
	sum := fnv.New64a()
	fmt.Fprint(sum, uid, name)
	b := sum.Sum(nil)
	return fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4])
}

// labelsOf adds the node to an instance that has one.
func labelsOf(i *instance, node string) map[string]string {
	labels := maps.Clone(i.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	if node != "" {
		labels[labelNode] = node
	}
	return labels
}
