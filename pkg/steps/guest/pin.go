package guest

import (
	"bytes"
	"context"
	"fmt"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/step"
)

// Secrets is what pinning does with Secrets.
type Secrets interface {
	Get(ctx context.Context, name string) (*corev1.Secret, error)
	SetData(ctx context.Context, seen *corev1.Secret, data map[string][]byte) error
}

// Pins keeps the host key of each machine in the instance's kubeconfig Secret,
// so that a step that was killed goes on with the same trust.
type Pins struct {
	Secrets Secrets
	// Secret is the name of the kubeconfig Secret, Instance its owner's.
	Secret, Instance string
}

// Pinned is the key of a machine, nil when it was never met.
func (p *Pins) Pinned(ctx context.Context, uid string) (ssh.PublicKey, error) {
	secret, err := p.read(ctx)
	if err != nil {
		return nil, err
	}
	return pinned(secret, uid)
}

func pinned(secret *corev1.Secret, uid string) (ssh.PublicKey, error) {
	line := secret.Data[guestcluster.SSHHostKeyKey]
	if string(secret.Data[guestcluster.VMIUIDKey]) != uid || len(line) == 0 {
		return nil, nil
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(line)
	if err != nil {
		return nil, step.InfraError("Secret %s: %s is no SSH key: delete the instance to start over", secret.Name, guestcluster.SSHHostKeyKey)
	}
	return key, nil
}

// Pin writes the key of a machine unless another writer was faster.
func (p *Pins) Pin(ctx context.Context, uid string, key ssh.PublicKey) error {
	secret, err := p.read(ctx)
	if err != nil {
		return err
	}
	before, err := pinned(secret, uid)
	if err != nil {
		return err
	}
	if before != nil {
		return sameKey(uid, before, key)
	}
	return p.classify("pin the SSH host key", p.Secrets.SetData(ctx, secret, map[string][]byte{
		guestcluster.VMIUIDKey:     []byte(uid),
		guestcluster.SSHHostKeyKey: bytes.TrimSpace(ssh.MarshalAuthorizedKey(key)),
	}))
}

func (p *Pins) read(ctx context.Context) (*corev1.Secret, error) {
	secret, err := p.Secrets.Get(ctx, p.Secret)
	if err != nil {
		return nil, p.classify("read Secret "+p.Secret, err)
	}
	for _, owner := range secret.OwnerReferences {
		if owner.APIVersion == v1alpha1.SchemeGroupVersion.String() && owner.Kind == "ClusterInstance" && owner.Name == p.Instance {
			return secret, nil
		}
	}
	return nil, step.UserError("Secret %s does not belong to ClusterInstance %s: not written", p.Secret, p.Instance)
}

func (p *Pins) classify(doing string, err error) error {
	return kube.Classify(doing, err, "the instance's ServiceAccount may get and patch this one Secret: see its Role")
}

// sameKey refuses a machine that shows another key than before.
func sameKey(uid string, before, now ssh.PublicKey) error {
	if bytes.Equal(before.Marshal(), now.Marshal()) {
		return nil
	}
	return step.InfraError("the guest shows another SSH host key (%s) than at first contact (%s) though it is the same VirtualMachineInstance %s: "+
		"something else answers at its address, or its disk was changed; nothing was sent to it; delete the instance", fingerprint(now), fingerprint(before), uid)
}

func fingerprint(key ssh.PublicKey) string {
	return fmt.Sprintf("%s %s", key.Type(), ssh.FingerprintSHA256(key))
}
