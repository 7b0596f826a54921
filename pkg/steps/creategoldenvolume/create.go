package creategoldenvolume

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/steps/bundle"
	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/step"
)

// contentType tells CDI that the volume holds a disk, so that it may clone it
// as one.
const (
	contentTypeAnnotation = "cdi.kubevirt.io/storage.contentType"
	contentType           = "kubevirt"
)

// maxPeek bounds how much of the download is looked at: description and disk
// are the first two members of every bundle that Red Hat publishes.
const maxPeek = 64 << 20

// Creator is the step.
type Creator struct {
	Options
	Volumes  *bundle.Volumes
	Progress io.Writer
	// Pause is the back-off between tries.
	Pause wait.Backoff
	// DeletionWait bounds the wait for an old volume to be gone.
	DeletionWait time.Duration
	// Now is the clock.
	Now func() time.Time
	// Dial reaches the mirror; nil is the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Command is the step as a subcommand.
func Command() step.Command {
	return step.Command{
		Name:  "create-golden-volume",
		Short: "look at a bundle and make the volume that its disk needs",
		New: func(flags *flag.FlagSet, progress io.Writer) step.Runner {
			c := &Creator{Progress: progress, Pause: step.Backoff(), DeletionWait: 2 * time.Minute, Now: time.Now}
			c.Bind(flags)
			return kube.Connected(c, c.connect)
		},
	}
}

func (c *Creator) connect(config *rest.Config) (err error) {
	c.Volumes, err = bundle.NewVolumes(config, c.Namespace)
	return err
}

// Run makes or adopts the golden volume and writes the results.
func (c *Creator) Run(ctx context.Context) error {
	if err := c.validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	claim, err := c.look(ctx)
	if err == nil && !sealed(claim) {
		claim, err = c.prepare(ctx)
	}
	if err != nil {
		return err
	}
	return step.WriteResults(
		step.Result{Path: c.GoldenVolumePath, Value: claim.Name},
		step.Result{Path: c.GoldenVolumeUIDPath, Value: string(claim.UID)},
	)
}

func sealed(claim *corev1.PersistentVolumeClaim) bool { return claim != nil && bundle.Sealed(claim) }

// look reads the volume that exists already, if one does. It waits while an
// old one is being deleted, and fails when another run has locked it.
func (c *Creator) look(ctx context.Context) (claim *corev1.PersistentVolumeClaim, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.DeletionWait)
	defer cancel()
	err = step.Retry(ctx, c.Pause, c.Progress, func(ctx context.Context) (err error) {
		claim, err = c.find(ctx)
		return err
	})
	if err != nil || !sealed(claim) {
		return claim, err
	}
	sum := claim.Annotations[guestcluster.BundleSHA256Annotation]
	if c.SHA256 != "" && c.SHA256 != sum {
		return nil, step.UserError("golden volume %s/%s was made of a bundle with checksum %s, not %s: delete CRCBundle and volume to prepare it anew", c.Namespace, claim.Name, sum, c.SHA256)
	}
	fmt.Fprintf(c.Progress, "golden volume %s/%s is complete already\n", c.Namespace, claim.Name)
	return claim, nil
}

func (c *Creator) find(ctx context.Context) (*corev1.PersistentVolumeClaim, error) {
	claim, err := c.Volumes.Find(ctx, c.Name())
	if err != nil || claim == nil {
		return nil, err
	}
	if claim.DeletionTimestamp != nil {
		return nil, fmt.Errorf("golden volume %s/%s is being deleted (finalizers: %s): waiting until it is gone", c.Namespace, claim.Name, strings.Join(claim.Finalizers, ", "))
	}
	if c.BundleUID != "" && len(claim.OwnerReferences) > 0 && string(claim.OwnerReferences[0].UID) != c.BundleUID {
		return nil, fmt.Errorf("golden volume %s/%s belongs to an earlier CRCBundle: waiting until it is deleted", c.Namespace, claim.Name)
	}
	if claim.Status.Phase == corev1.ClaimLost {
		return nil, step.UserError("golden volume %s/%s has lost its storage: delete it and start again", c.Namespace, claim.Name)
	}
	return claim, c.Volumes.Unlocked(ctx, claim, c.RunUID)
}

// prepare looks into the bundle, then makes the volume or adopts the one that
// an earlier run left.
func (c *Creator) prepare(ctx context.Context) (claim *corev1.PersistentVolumeClaim, err error) {
	virtual, err := c.peek(ctx)
	if err != nil {
		return nil, err
	}
	wanted, err := c.claim(virtual)
	if err != nil {
		return nil, err
	}
	err = step.Retry(ctx, c.Pause, c.Progress, func(ctx context.Context) error {
		if claim, err = c.find(ctx); err != nil {
			return err
		}
		if claim == nil {
			claim, err = c.Volumes.Claims.Create(ctx, wanted)
		} else {
			claim, err = c.adopt(ctx, claim, wanted, virtual)
		}
		if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return step.ErrAgain
		}
		return bundle.Classify("write golden volume", err)
	})
	if err != nil {
		return nil, err
	}
	size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	fmt.Fprintf(c.Progress, "golden volume %s/%s has %s and is locked by this run\n", c.Namespace, claim.Name, size.String())
	return claim, nil
}
