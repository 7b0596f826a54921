package createdatavolume

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/step"
	"opdev.io/guestcluster/pkg/steps/virt"
)

// Creator is the step.
type Creator struct {
	Options
	Clients  virt.Clients
	Progress io.Writer
	// Pause is the back-off between looks, Now the clock.
	Pause wait.Backoff
	Now   func() time.Time

	disks    *virt.Disks
	log      *virt.Log
	patience virt.Patience
	// seen says that the DataVolume was there, so that its absence is a loss.
	seen bool
}

// Command is the step as a subcommand.
func Command() step.Command {
	return step.Command{
		Name:  "create-datavolume",
		Short: "make the root disk of an instance and wait until a VM can use it",
		New: func(flags *flag.FlagSet, progress io.Writer) step.Runner {
			c := &Creator{Progress: progress, Pause: virt.Pause(), Now: time.Now}
			c.Bind(flags)
			return kube.Connected(c, c.connect)
		},
	}
}

func (c *Creator) connect(config *rest.Config) (err error) {
	c.Clients, err = virt.NewClients(config, c.Namespace)
	return err
}

// Run makes the DataVolume, or adopts it, and waits until it is usable.
func (c *Creator) Run(ctx context.Context) error {
	if err := c.validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	warnings := &virt.Warnings{Events: c.Clients.Events, Now: c.Now}
	c.disks = &virt.Disks{Clients: c.Clients, Owner: c.owner(), Warnings: warnings}
	c.log = &virt.Log{Out: c.Progress, Now: c.Now}
	c.patience.Now = c.Now
	c.log.Say("source", origin(c.source()))
	err := step.Retry(ctx, c.Pause, c.Progress, c.look)
	return c.log.Explain(ctx, err, warnings)
}

// look takes one step towards a usable disk.
func (c *Creator) look(ctx context.Context) error {
	disk, err := c.disks.Look(ctx, c.Name)
	switch {
	case err != nil:
		return err
	case disk.Missing && c.seen:
		return step.InfraError("DataVolume %s/%s was deleted by somebody while it was filled, or because there is no ClusterInstance %s with UID %s",
			c.Namespace, c.Name, c.Instance, c.InstanceUID)
	case disk.Missing:
		return c.create(ctx)
	}
	if disk.Volume != nil && !disk.Leaving {
		c.seen = true
		if found, wanted := origin(disk.Volume.Spec.Source), origin(c.source()); found != wanted {
			return step.UserError("DataVolume %s/%s exists and is made from %s, not from %s: delete it", c.Namespace, c.Name, found, wanted)
		}
	}
	c.log.Say("disk", disk.Words())
	if disk.Usable {
		return nil
	}
	if err := c.patience.Bear(disk.Trouble); err != nil {
		return err
	}
	return step.ErrAgain
}

func (c *Creator) create(ctx context.Context) error {
	_, err := c.Clients.DataVolumes.Create(ctx, c.Build())
	if err == nil {
		c.seen = true
		fmt.Fprintf(c.Progress, "made DataVolume %s/%s of %s\n", c.Namespace, c.Name, c.Size)
		return step.ErrAgain
	}
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "clone source namespace") {
		return step.UserError("create DataVolume: %w; the ServiceAccount of the run needs create on datavolumes/source (cdi.kubevirt.io) for %s in namespace %s: "+
			"a run of the controller has it by RoleBinding %s-clone there", err, c.SourceVolume, c.SourceNamespace, c.Name)
	}
	return virt.Made("create DataVolume", err)
}
