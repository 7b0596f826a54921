package publishkubeconfig

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/step"
)

// Secrets is what the step does with Secrets.
type Secrets interface {
	Get(ctx context.Context, name string) (*corev1.Secret, error)
	SetData(ctx context.Context, seen *corev1.Secret, data map[string][]byte) error
}

// Publisher is the step.
type Publisher struct {
	Options
	Secrets  Secrets
	Progress io.Writer
	// Pause is the back-off between tries.
	Pause wait.Backoff
	// Dial reaches the guest; nil is the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Command is the step as a subcommand.
func Command() step.Command {
	return step.Command{
		Name:  "publish-kubeconfig",
		Short: "wait for the guest API and hand its kubeconfig to the controller",
		New: func(flags *flag.FlagSet, progress io.Writer) step.Runner {
			p := &Publisher{Progress: progress, Pause: step.Backoff()}
			p.Bind(flags)
			return kube.Connected(p, p.connect)
		},
	}
}

func (p *Publisher) connect(config *rest.Config) (err error) {
	p.Secrets, err = kube.NewSecrets(config, p.Namespace)
	return err
}

// Run waits for the guest, fills the Secret and writes the results.
func (p *Publisher) Run(ctx context.Context) error {
	if err := p.validate(); err != nil {
		return err
	}
	id, err := readIdentity(p.IdentityDir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	version, err := p.waitForGuest(ctx, id)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.Progress, "guest API answers at %s, version %s\n", p.endpoint(), version)
	if err := p.publish(ctx, id, version); err != nil {
		return err
	}
	fmt.Fprintf(p.Progress, "wrote Secret %s/%s\n", p.Namespace, p.KubeconfigSecret)
	return step.WriteResults(
		step.Result{Path: p.APIEndpointPath, Value: p.endpoint()},
		step.Result{Path: p.OCPVersionPath, Value: version},
	)
}

func (p *Publisher) waitForGuest(ctx context.Context, id *identity) (version string, err error) {
	guest, err := newGuest(id, p.endpoint(), p.Dial)
	if err != nil {
		return "", err
	}
	err = step.Retry(ctx, p.Pause, p.Progress, func(ctx context.Context) (err error) {
		version, err = guest.version(ctx)
		return err
	})
	return version, err
}

func (p *Publisher) publish(ctx context.Context, id *identity, version string) error {
	kubeconfig, err := id.kubeconfig(p.endpoint())
	if err != nil {
		return err
	}
	data := map[string][]byte{
		guestcluster.KubeconfigKey: kubeconfig,
		guestcluster.OCPVersionKey: []byte(version),
		guestcluster.RunUIDKey:     []byte(p.RunUID),
	}
	if len(id.password) > 0 {
		data[guestcluster.KubeadminPasswordKey] = id.password
	}
	return step.Retry(ctx, p.Pause, p.Progress, func(ctx context.Context) error {
		secret, err := p.Secrets.Get(ctx, p.KubeconfigSecret)
		if err != nil {
			return p.classify("read Secret", err)
		}
		if !ownedBy(secret, p.Instance) {
			return step.UserError("Secret %s/%s does not belong to ClusterInstance %s: not written", p.Namespace, p.KubeconfigSecret, p.Instance)
		}
		return p.classify("write Secret", p.Secrets.SetData(ctx, secret, data))
	})
}

// ownedBy says whether the Secret is the one that the controller made for the
// instance, and not one that happens to have its name.
func ownedBy(secret *corev1.Secret, instance string) bool {
	for _, owner := range secret.OwnerReferences {
		if owner.APIVersion == v1alpha1.SchemeGroupVersion.String() && owner.Kind == "ClusterInstance" && owner.Name == instance {
			return true
		}
	}
	return false
}

func (p *Publisher) classify(doing string, err error) error {
	return kube.Classify(doing, err, "the instance's ServiceAccount may get and patch this one Secret: see its Role")
}
