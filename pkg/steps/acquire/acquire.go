package acquire

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/step"
)

// Leases is what the step does with leases.
type Leases interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*v1alpha1.ClusterLease, error)
	Create(ctx context.Context, lease *v1alpha1.ClusterLease, opts metav1.CreateOptions) (*v1alpha1.ClusterLease, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// Secrets reads the lease's access Secret.
type Secrets interface {
	Get(ctx context.Context, name string) (*corev1.Secret, error)
}

// Acquirer is the step.
type Acquirer struct {
	Options
	Leases   Leases
	Secrets  Secrets
	Progress io.Writer
	// Grace is how much longer than AcquireTimeout the step waits: the
	// controller ends the lease first and says why.
	Grace time.Duration
	// HintAfter is when an untouched lease makes the step doubt the controller.
	HintAfter time.Duration
	// Pause is the back-off after API errors.
	Pause wait.Backoff

	// followed is the lease whose fate is this process's result.
	followed types.UID
	// renewed says that a dead lease was already replaced once.
	renewed bool
	// said is the last progress line, waited what it was about.
	said, waited string
}

// Command is the step as a subcommand.
func Command() step.Command {
	return step.Command{
		Name:  "acquire",
		Short: "take a lease on a cluster and wait until it is bound",
		New: func(flags *flag.FlagSet, progress io.Writer) step.Runner {
			a := &Acquirer{Progress: progress, Grace: time.Minute, HintAfter: time.Minute, Pause: step.Backoff()}
			a.Bind(flags)
			return kube.Connected(a, a.connect)
		},
	}
}

func (a *Acquirer) connect(config *rest.Config) (err error) {
	if a.Leases, err = kube.Leases(config, a.Holder.Namespace); err != nil {
		return err
	}
	a.Secrets, err = kube.NewSecrets(config, a.Holder.Namespace)
	return err
}

// Run takes the lease, waits for its cluster and writes the results.
func (a *Acquirer) Run(ctx context.Context) error {
	if err := a.validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.AcquireTimeout+a.Grace)
	defer cancel()
	lease, err := a.acquire(ctx)
	if err != nil {
		if ctx.Err() != nil {
			a.abandon()
		}
		return err
	}
	if err := a.writeKubeconfig(ctx, lease); err != nil {
		return err
	}
	a.say("%s", lease.Status.BoundMessage())
	return step.WriteResults(a.results(lease)...)
}

func (a *Acquirer) acquire(ctx context.Context) (*v1alpha1.ClusterLease, error) {
	var bound *v1alpha1.ClusterLease
	err := step.Retry(ctx, a.Pause, a.Progress, func(ctx context.Context) error {
		lease, err := a.ensure(ctx)
		if err != nil {
			return err
		}
		bound, err = a.follow(ctx, lease)
		return err
	})
	if err != nil && ctx.Err() != nil && a.waited != "" {
		err = &step.Error{Code: step.ExitCode(err), Err: fmt.Errorf("%w; lease %s waited for: %s", err, a.Holder.LeaseName(), a.waited)}
	}
	return bound, err
}

func (a *Acquirer) say(format string, args ...any) {
	fmt.Fprintf(a.Progress, format+"\n", args...)
}
