package release

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/lessee"
	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/step"
)

// timeout bounds the step: an API outage longer than this is left to the
// controller's watch on the holder.
const timeout = 2 * time.Minute

// Leases is what the step does with leases.
type Leases interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*v1alpha1.ClusterLease, error)
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*v1alpha1.ClusterLease, error)
}

// Releaser is the step.
type Releaser struct {
	// Holder is whose lease is released.
	Holder   lessee.Holder
	Leases   Leases
	Progress io.Writer
	// Pause is the back-off after API errors.
	Pause wait.Backoff
}

// Command is the step as a subcommand.
func Command() step.Command {
	return step.Command{
		Name:  "release",
		Short: "give the cluster of this run's lease back",
		New: func(flags *flag.FlagSet, progress io.Writer) step.Runner {
			r := &Releaser{Progress: progress, Pause: step.Backoff()}
			step.BindHolder(flags, &r.Holder)
			return kube.Connected(r, r.connect)
		},
	}
}

func (r *Releaser) connect(config *rest.Config) (err error) {
	r.Leases, err = kube.Leases(config, r.Holder.Namespace)
	return err
}

// Run sets spec.release and returns; the controller does the rest.
func (r *Releaser) Run(ctx context.Context) error {
	if problem := r.Holder.CanRelease(); problem != nil {
		return step.OfProblem(problem)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return step.Retry(ctx, r.Pause, r.Progress, r.release)
}

func (r *Releaser) release(ctx context.Context) error {
	lease, err := r.Leases.Get(ctx, r.Holder.LeaseName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		lease = nil
	case err != nil:
		return r.classify("read lease", err)
	}
	todo := r.Holder.Release(lease)
	switch {
	case todo.Problem != nil:
		return step.OfProblem(todo.Problem)
	case todo.Release:
		return r.patch(ctx, lease, todo.Text)
	}
	return r.done(todo.Text)
}

// patch sets spec.release if the lease is still the one that was read; on a
// conflict the next round reads it again.
func (r *Releaser) patch(ctx context.Context, lease *v1alpha1.ClusterLease, done string) error {
	patch, err := kube.Guarded(lease.UID, lease.ResourceVersion, map[string]any{"spec": map[string]any{"release": true}})
	if err != nil {
		return err
	}
	_, err = r.Leases.Patch(ctx, lease.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return step.ErrAgain
	}
	if err != nil {
		return r.classify("release lease", err)
	}
	return r.done(done)
}

func (r *Releaser) done(text string) error {
	fmt.Fprintln(r.Progress, text)
	return nil
}

func (r *Releaser) classify(doing string, err error) error {
	return kube.Classify(doing, err, "the ServiceAccount of this run needs ClusterRole guestcluster-lessee")
}
