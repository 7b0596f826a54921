package resources

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// KubeconfigSecret is the empty Secret that the instance's run fills.
func KubeconfigSecret(i *v1alpha1.ClusterInstance) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: i.ChildMeta(i.KubeconfigSecretName()), Type: corev1.SecretTypeOpaque}
}

// IdentitySecret holds keys and certificates made before the run: a run that
// is killed half way can go on with a guest that already trusts them. Inputs
// are copied for the same reason; nil for a topology that has none.
func IdentitySecret(i *v1alpha1.ClusterInstance, host string, in *Inputs, now time.Time) (*corev1.Secret, error) {
	data, err := newIdentity([]string{host, i.DerivedName() + "." + i.Namespace + ".svc", "localhost"}, now)
	if err == nil && in != nil {
		err = addInputs(data, in)
	}
	if err != nil {
		return nil, err
	}
	immutable := true
	return &corev1.Secret{
		ObjectMeta: i.ChildMeta(i.IdentitySecretName()),
		Type:       corev1.SecretTypeOpaque, Immutable: &immutable, Data: data,
	}, nil
}
