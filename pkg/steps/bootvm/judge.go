package bootvm

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	virtv1 "kubevirt.io/api/core/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/steps/step"
	"opdev.io/guestcluster/pkg/steps/virt"
)

const (
	// maxStarts: KubeVirt starts a machine that crashes for ever, so it is counted here.
	maxStarts = 3
	// flap is for states that are known to come and go.
	flap = time.Minute
	// pull is for registries that are away, and for imports that are tried again.
	pull = 2 * time.Minute
	// maxMessage bounds what KubeVirt says.
	maxMessage = 500
)

// state is where the machine stands.
type state struct {
	// address of a running guest.
	address string
	// said is a few words for people.
	said    string
	trouble virt.Trouble
}

// judge reads a machine and its instance, which is nil while there is none.
func judge(vm *virtv1.VirtualMachine, vmi *virtv1.VirtualMachineInstance, scheduleGrace time.Duration) state {
	s := state{said: string(cmp.Or(vm.Status.PrintableStatus, "not looked at by KubeVirt yet"))}
	if vmi != nil && vmi.Status.Phase == virtv1.Running {
		s.address = address(vmi)
		if s.address == "" {
			s.said = "Running, but KubeVirt reports no address of its interface: look at its virt-launcher pod's network and at the VM's console (virtctl console)"
		}
	}
	if s.address == "" {
		s.trouble = trouble(vm, vmi, scheduleGrace)
	}
	return s
}

func address(vmi *virtv1.VirtualMachineInstance) string {
	for _, i := range vmi.Status.Interfaces {
		if i.IP != "" && (i.Name == networkName || i.Name == "") {
			return i.IP
		}
	}
	return ""
}

// stopped says who else decided that the machine shall not run.
func stopped(vm *virtv1.VirtualMachine) error {
	strategy := virtv1.RunStrategyHalted
	if vm.Spec.RunStrategy != nil {
		strategy = *vm.Spec.RunStrategy
	}
	if strategy == virtv1.RunStrategyAlways {
		return nil
	}
	return step.InfraError("VirtualMachine %s/%s was stopped by somebody (runStrategy %s) while it booted", vm.Namespace, vm.Name, strategy)
}

// trouble returns the first that fits, most telling first.
func trouble(vm *virtv1.VirtualMachine, vmi *virtv1.VirtualMachineInstance, scheduleGrace time.Duration) virt.Trouble {
	infra := func(kind string, grace time.Duration, text string) virt.Trouble {
		return virt.Trouble{Kind: kind, Grace: grace, Code: step.ExitInfra,
			Text: fmt.Sprintf("VirtualMachine %s: %s", vm.Name, v1alpha1.Truncate(text, maxMessage))}
	}
	status, scheduled := vm.Status.PrintableStatus, unmet(vmi, virtv1.VirtualMachineInstanceConditionType(corev1.PodScheduled))
	synchronized := unmet(vmi, virtv1.VirtualMachineInstanceSynchronized)
	if scheduled == "" && status == virtv1.VirtualMachineStatusUnschedulable {
		scheduled = "the scheduler does not say why"
	}
	if failure := failure(vm); failure != "" {
		return infra("failure", flap, "KubeVirt cannot make it: "+failure)
	}
	if scheduled != "" {
		return infra("schedule", scheduleGrace, "no node fits: "+scheduled+"; lower template.memory or cores, correct vmNodeSelector, or add nodes")
	}
	switch status {
	case virtv1.VirtualMachineStatusCrashLoopBackOff:
		return crash(vm, infra, synchronized)
	case virtv1.VirtualMachineStatusErrImagePull, virtv1.VirtualMachineStatusImagePullBackOff:
		return infra("image", pull, "an image of KubeVirt cannot be pulled: "+cmp.Or(synchronized, string(status)))
	case virtv1.VirtualMachineStatusPvcNotFound:
		return infra("claim", flap, "the PersistentVolumeClaim of its disk is gone")
	case virtv1.VirtualMachineStatusDataVolumeError:
		return infra("disk", pull, "KubeVirt reports an error of its DataVolume")
	}
	if synchronized != "" {
		return infra("synchronized", flap, "KubeVirt cannot start it: "+synchronized)
	}
	return virt.Trouble{}
}

func crash(vm *virtv1.VirtualMachine, infra func(string, time.Duration, string) virt.Trouble, why string) virt.Trouble {
	starts := 0
	if vm.Status.StartFailure != nil {
		starts = vm.Status.StartFailure.ConsecutiveFailCount
	}
	text := fmt.Sprintf("it failed to start %d times: %s", starts, cmp.Or(why, "KubeVirt does not say why"))
	if starts >= maxStarts {
		return infra("crashed", 0, text)
	}
	return infra("crash", virt.Forever, text)
}

// unmet is the message of a condition that is False.
func unmet(vmi *virtv1.VirtualMachineInstance, kind virtv1.VirtualMachineInstanceConditionType) string {
	if vmi == nil {
		return ""
	}
	for _, c := range vmi.Status.Conditions {
		if c.Type == kind && c.Status == corev1.ConditionFalse {
			return cmp.Or(c.Message, c.Reason, "no reason given")
		}
	}
	return ""
}

func failure(vm *virtv1.VirtualMachine) string {
	for _, c := range vm.Status.Conditions {
		if c.Type == virtv1.VirtualMachineFailure && c.Status == corev1.ConditionTrue {
			return cmp.Or(c.Message, c.Reason, "no reason given")
		}
	}
	return ""
}
