package bootvm

import (
	"flag"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/step"
)

// Options are the step's flags.
type Options struct {
	// Instance, Namespace and InstanceUID are the ClusterInstance that owns the machine.
	Instance, Namespace, InstanceUID string
	// Name of the VirtualMachine and of the DataVolume it boots from.
	Name string
	// Memory and Cores of the guest.
	Memory string
	Cores  uint
	// NodeSelector is key=value,key=value; Arch is amd64 or arm64.
	NodeSelector, Arch string
	// ScheduleGrace is how long no node may fit.
	ScheduleGrace time.Duration
	// Timeout is how long to wait for the machine's address.
	Timeout time.Duration
	// VMIUIDPath is a result file.
	VMIUIDPath string
}

// Bind declares the flags.
func (o *Options) Bind(flags *flag.FlagSet) {
	flags.StringVar(&o.Instance, "instance", "", "name of the ClusterInstance")
	flags.StringVar(&o.Namespace, "namespace", "", "namespace of the ClusterInstance")
	flags.StringVar(&o.InstanceUID, "instance-uid", "", "UID of the ClusterInstance")
	flags.StringVar(&o.Name, "name", "", "name of the VirtualMachine and its DataVolume")
	flags.StringVar(&o.Memory, "memory", "", "memory of the guest")
	flags.UintVar(&o.Cores, "cores", 0, "CPU cores of the guest")
	flags.StringVar(&o.NodeSelector, "node-selector", "", "labels of the nodes: key=value,key=value")
	flags.StringVar(&o.Arch, "arch", "", "architecture of guest and node")
	flags.DurationVar(&o.ScheduleGrace, "schedule-grace", 0, "how long to tolerate that no node fits")
	flags.DurationVar(&o.Timeout, "timeout", 0, "how long to wait for the guest's address")
	flags.StringVar(&o.VMIUIDPath, "vmi-uid-path", "", "result file")
	step.BindFailure(flags)
}

func (o *Options) validate() error {
	for _, f := range []struct{ name, value string }{
		{"instance", o.Instance}, {"namespace", o.Namespace}, {"instance-uid", o.InstanceUID}, {"name", o.Name},
	} {
		if f.value == "" {
			return step.UserError("--%s is empty", f.name)
		}
	}
	if memory, err := resource.ParseQuantity(o.Memory); err != nil || memory.Sign() <= 0 {
		return step.UserError("memory %q must be a positive quantity such as 14Gi", o.Memory)
	}
	if o.Cores < 1 || o.Cores > 512 {
		return step.UserError("cores must be a number from 1 to 512")
	}
	if machines[o.Arch] == "" {
		return step.UserError("arch %q must be amd64 or arm64", o.Arch)
	}
	if _, err := labels.ConvertSelectorToLabelsMap(o.NodeSelector); err != nil {
		return step.UserError("node-selector must be key=value,key=value: %w", err)
	}
	if o.Timeout <= 0 || o.ScheduleGrace < 0 {
		return step.UserError("timeout and schedule-grace must be durations such as 20m and 2m")
	}
	return nil
}

func (o *Options) owner() kube.Owner {
	return kube.Owner{Name: o.Instance, Namespace: o.Namespace, UID: types.UID(o.InstanceUID)}
}
