package bootvm

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	virtv1 "kubevirt.io/api/core/v1"

	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/step"
	"opdev.io/guestcluster/pkg/steps/virt"
)

// Booter is the step.
type Booter struct {
	Options
	Clients  virt.Clients
	Progress io.Writer
	// Pause is the back-off between looks, Now the clock.
	Pause wait.Backoff
	Now   func() time.Time

	disks          *virt.Disks
	log            *virt.Log
	ofDisk, ofVM   virt.Patience
	seen           bool
	vmiUID, atAddr string
}

// Command is the step as a subcommand.
func Command() step.Command {
	return step.Command{
		Name:  "boot-vm",
		Short: "boot an instance's virtual machine and wait for its address",
		New: func(flags *flag.FlagSet, progress io.Writer) step.Runner {
			b := &Booter{Progress: progress, Pause: virt.Pause(), Now: time.Now}
			b.Bind(flags)
			return kube.Connected(b, b.connect)
		},
	}
}

func (b *Booter) connect(config *rest.Config) (err error) {
	b.Clients, err = virt.NewClients(config, b.Namespace)
	return err
}

// Run makes the machine, or adopts it, and waits for its address.
func (b *Booter) Run(ctx context.Context) error {
	if err := b.validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, b.Timeout)
	defer cancel()
	warnings := &virt.Warnings{Events: b.Clients.Events, Now: b.Now}
	b.disks = &virt.Disks{Clients: b.Clients, Owner: b.owner(), Warnings: warnings}
	b.log = &virt.Log{Out: b.Progress, Now: b.Now}
	b.ofDisk.Now, b.ofVM.Now = b.Now, b.Now
	if err := step.Retry(ctx, b.Pause, b.Progress, b.look); err != nil {
		return b.log.Explain(ctx, err, warnings)
	}
	b.log.Say("vm", "Running at "+b.atAddr)
	return step.WriteResults(step.Result{Path: b.VMIUIDPath, Value: b.vmiUID})
}

// look takes one step towards a running machine.
func (b *Booter) look(ctx context.Context) error {
	vm, err := b.machine(ctx)
	if err != nil {
		return err
	}
	disk, err := b.disks.Look(ctx, b.Name)
	if err != nil {
		return err
	}
	vmi, err := b.running(ctx, vm)
	if err != nil {
		return err
	}
	s := judge(vm, vmi, b.ScheduleGrace)
	b.log.Say("disk", disk.Words())
	if disk.Filled && s.address != "" {
		b.vmiUID, b.atAddr = string(vmi.UID), s.address
		return nil
	}
	b.tell(s)
	return b.bear(vm, disk, s)
}

func (b *Booter) tell(s state) {
	if s.trouble.Text != "" {
		s.said += "; " + s.trouble.Text
	}
	b.log.Say("vm", s.said)
}

// bear says whether what is wrong has lasted too long.
func (b *Booter) bear(vm *virtv1.VirtualMachine, disk virt.Disk, s state) error {
	if disk.Missing {
		return step.InfraError("DataVolume %s/%s is missing: create-datavolume makes it before, or somebody deleted it", b.Namespace, b.Name)
	}
	for _, err := range []error{stopped(vm), b.ofDisk.Bear(disk.Trouble), b.ofVM.Bear(s.trouble)} {
		if err != nil {
			return err
		}
	}
	return step.ErrAgain
}

// machine returns the VirtualMachine: found, or made.
func (b *Booter) machine(ctx context.Context) (*virtv1.VirtualMachine, error) {
	vm, err := b.Clients.Machines.Get(ctx, b.Name)
	switch {
	case apierrors.IsNotFound(err) && b.seen:
		return nil, step.InfraError("VirtualMachine %s/%s was deleted by somebody while it booted, or because there is no ClusterInstance %s with UID %s",
			b.Namespace, b.Name, b.Instance, b.InstanceUID)
	case apierrors.IsNotFound(err):
		return b.create(ctx)
	case err != nil:
		return nil, kube.Classify("read VirtualMachine", err, virt.Hint)
	case !b.owner().Owns(vm):
		return nil, step.UserError("VirtualMachine %s/%s exists and does not belong to ClusterInstance %s: delete it, or move the pool to a namespace without it",
			b.Namespace, b.Name, b.Instance)
	case vm.DeletionTimestamp != nil:
		b.log.Say("vm", "VirtualMachine is being deleted")
		return nil, step.ErrAgain
	}
	b.seen = true
	return vm, nil
}

func (b *Booter) create(ctx context.Context) (*virtv1.VirtualMachine, error) {
	vm, err := b.Clients.Machines.Create(ctx, b.Build())
	if err != nil {
		return nil, virt.Made("create VirtualMachine", err)
	}
	fmt.Fprintf(b.Progress, "made VirtualMachine %s/%s with %d cores and %s\n", b.Namespace, b.Name, b.Cores, b.Memory)
	b.seen = true
	return vm, nil
}

// running returns the machine's instance, or nil while there is none. One that
// is going, or was an earlier machine's, is none.
func (b *Booter) running(ctx context.Context, vm *virtv1.VirtualMachine) (*virtv1.VirtualMachineInstance, error) {
	vmi, err := b.Clients.Running.Get(ctx, b.Name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, kube.Classify("read VirtualMachineInstance", err, virt.Hint)
	}
	if vmi.DeletionTimestamp != nil || !metav1.IsControlledBy(vmi, vm) {
		return nil, nil
	}
	return vmi, nil
}
