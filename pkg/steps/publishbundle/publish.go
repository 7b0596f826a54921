package publishbundle

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/steps/bundle"
	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/step"
)

// Options are the step's flags.
type Options struct {
	bundle.Source
	// Namespace of the golden volume and the boot key.
	Namespace string
	// GoldenVolume and GoldenVolumeUID are the volume that the run has filled.
	GoldenVolume, GoldenVolumeUID string
	// RunUID is the UID of the PipelineRun.
	RunUID string
	// Timeout bounds the step.
	Timeout time.Duration
	// SSHKeySecretPath, OCPVersionPath and BuildTimePath are result files.
	SSHKeySecretPath, OCPVersionPath, BuildTimePath string
}

// Bind declares the flags.
func (o *Options) Bind(flags *flag.FlagSet) {
	o.BindName(flags)
	flags.StringVar(&o.Namespace, "namespace", "", "namespace of the golden volume")
	flags.StringVar(&o.GoldenVolume, "golden-volume", "", "name of the golden volume")
	flags.StringVar(&o.GoldenVolumeUID, "golden-volume-uid", "", "UID of the golden volume")
	flags.StringVar(&o.SHA256, "sha256", "", "checksum of the bundle that fetch-bundle found")
	flags.StringVar(&o.RunUID, "run-uid", "", "UID of the PipelineRun")
	flags.DurationVar(&o.Timeout, "timeout", 0, "how long the step may take")
	flags.StringVar(&o.SSHKeySecretPath, "ssh-key-secret-path", "", "result file")
	flags.StringVar(&o.OCPVersionPath, "ocp-version-path", "", "result file")
	flags.StringVar(&o.BuildTimePath, "build-time-path", "", "result file")
	step.BindFailure(flags)
}

func (o *Options) validate() error {
	for _, f := range []struct{ name, value string }{
		{"namespace", o.Namespace}, {"golden-volume", o.GoldenVolume}, {"golden-volume-uid", o.GoldenVolumeUID},
		{"sha256", o.SHA256}, {"run-uid", o.RunUID},
	} {
		if f.value == "" {
			return step.UserError("--%s is empty", f.name)
		}
	}
	if o.Timeout <= 0 {
		return step.UserError("timeout must be a positive duration such as 2m")
	}
	return o.ValidateName()
}

// Publisher is the step.
type Publisher struct {
	Options
	Volumes  *bundle.Volumes
	Progress io.Writer
	// Pause is the back-off between tries.
	Pause wait.Backoff
}

// Command is the step as a subcommand.
func Command() step.Command {
	return step.Command{
		Name:  "publish-bundle",
		Short: "seal the golden volume and say what was prepared",
		New: func(flags *flag.FlagSet, progress io.Writer) step.Runner {
			p := &Publisher{Progress: progress, Pause: step.Backoff()}
			p.Bind(flags)
			return kube.Connected(p, p.connect)
		},
	}
}

func (p *Publisher) connect(config *rest.Config) (err error) {
	p.Volumes, err = bundle.NewVolumes(config, p.Namespace)
	return err
}

// Run seals the volume and writes the results.
func (p *Publisher) Run(ctx context.Context) error {
	if err := p.validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	var seal map[string]string
	err := step.Retry(ctx, p.Pause, p.Progress, func(ctx context.Context) (err error) {
		seal, err = p.seal(ctx)
		if apierrors.IsConflict(err) {
			return step.ErrAgain
		}
		return bundle.Classify("seal golden volume", err)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(p.Progress, "golden volume %s/%s is sealed: OpenShift %s\n", p.Namespace, p.GoldenVolume, seal[guestcluster.OCPVersionAnnotation])
	return step.WriteResults(
		step.Result{Path: p.SSHKeySecretPath, Value: p.keyName()},
		step.Result{Path: p.OCPVersionPath, Value: seal[guestcluster.OCPVersionAnnotation]},
		step.Result{Path: p.BuildTimePath, Value: seal[guestcluster.BuildTimeAnnotation]},
	)
}

func (p *Publisher) keyName() string { return v1alpha1.BootKeySecretName(p.Name()) }

// seal writes the annotations if volume and key are still those of this run and
// of one bundle. A volume that is sealed already keeps what it has.
func (p *Publisher) seal(ctx context.Context) (map[string]string, error) {
	claim, err := p.Volumes.Mine(ctx, p.GoldenVolume, p.GoldenVolumeUID, p.RunUID)
	if err != nil {
		return nil, err
	}
	key, err := p.key(ctx)
	if err != nil {
		return nil, err
	}
	if bundle.Sealed(claim) {
		return claim.Annotations, nil
	}
	seal := bundle.Seal(key)
	patch, err := bundle.Patch(claim.ObjectMeta, metav1.ObjectMeta{Annotations: seal}, nil)
	if err != nil {
		return nil, err
	}
	_, err = p.Volumes.Claims.Patch(ctx, claim.Name, patch)
	return seal, err
}

// key is the boot key Secret, if it is of the bundle in the volume.
func (p *Publisher) key(ctx context.Context) (*corev1.Secret, error) {
	key, err := p.Volumes.Keys.Get(ctx, p.keyName())
	problem := ""
	switch {
	case apierrors.IsNotFound(err):
		problem = "is gone"
	case err != nil:
		return nil, bundle.Classify("read boot key", err)
	case key.Labels[guestcluster.BundleLabel] != p.Name() || len(key.Data[guestcluster.BootKeyKey]) == 0:
		problem = "is not the boot key of bundle " + p.Name()
	case key.Annotations[guestcluster.BundleSHA256Annotation] != p.SHA256:
		problem = "is of another bundle than the golden volume"
	}
	if problem != "" {
		return nil, step.UserError("Secret %s/%s %s: delete the golden volume (kubectl -n %s delete pvc %s) and prepare the bundle anew",
			p.Namespace, p.keyName(), problem, p.Namespace, p.GoldenVolume)
	}
	return key, nil
}
