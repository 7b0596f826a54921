package createdatavolume

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/step"
	"opdev.io/guestcluster/pkg/steps/virt"
)

// Creator is the step.
type Creator struct {
	Options
	Clients virt.Clients
	// Sources are the claims in the namespace of the golden volume.
	Sources  *kube.Objects[corev1.PersistentVolumeClaim]
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
	if c.Clients, err = virt.NewClients(config, c.Namespace); err != nil {
		return err
	}
	c.Sources, err = kube.NewObjects[corev1.PersistentVolumeClaim](config, virt.ClaimsResource, c.SourceNamespace)
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
	if strings.HasPrefix(c.SourceURL, "http://") {
		fmt.Fprintln(c.Progress, "warning: http:// has no integrity: anybody on the way may put another disk in its place; serve it by https://")
	}
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
		if err := c.fits(ctx); err != nil {
			return err
		}
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

// fits refuses a disk smaller than its golden volume: CDI tells that only when
// a machine waits for the disk. Whether there is a source, and who may clone
// it, is for CDI to say.
func (c *Creator) fits(ctx context.Context) error {
	if c.SourceVolume == "" {
		return nil
	}
	claim, err := c.Sources.Get(ctx, c.SourceVolume)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return kube.Classify("read the golden volume", err, virt.Hint)
	}
	least, size := claim.Spec.Resources.Requests[corev1.ResourceStorage], resource.MustParse(c.Size)
	if size.Cmp(least) >= 0 {
		return nil
	}
	return step.UserError("a disk of %s is smaller than its golden volume %s/%s, which has %s: raise template.rootVolumeSize to %s or more",
		size.String(), c.SourceNamespace, c.SourceVolume, least.String(), least.String())
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
