package resources

import (
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// Inputs are the credentials of others that a crc instance is made from.
type Inputs struct {
	// BootKey is the private key that the disk trusts at first boot.
	BootKey []byte
	// PullSecret is a .dockerconfigjson.
	PullSecret []byte
}

// addInputs copies the inputs and makes the password of kubeadmin.
func addInputs(data map[string][]byte, in *Inputs) error {
	password, err := newPassword()
	if err != nil {
		return fmt.Errorf("make kubeadmin's password: %w", err)
	}
	data[guestcluster.BootSSHPrivateKeyKey], data[guestcluster.PullSecretKey] = in.BootKey, in.PullSecret
	data[guestcluster.KubeadminPasswordKey] = []byte(password)
	return nil
}

// alphabet has no characters that are taken for one another.
const (
	alphabet      = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz23456789"
	passwordParts = 4
	partLength    = 5
)

// newPassword has the form that installers give kubeadmin: xxxxx-xxxxx-xxxxx-xxxxx.
func newPassword() (string, error) {
	parts := make([]string, passwordParts)
	for n := range parts {
		part := make([]byte, partLength)
		for k := range part {
			at, err := rand.Int(rand.Reader, big.NewInt(int64(len(alphabet))))
			if err != nil {
				return "", err
			}
			part[k] = alphabet[at.Int64()]
		}
		parts[n] = string(part)
	}
	return strings.Join(parts, "-"), nil
}

const maxBootKey = 64 << 10

// BootKeyProblem says why a private key cannot be used to log in; nothing when
// it can. The parsers' own errors are not repeated.
func BootKeyProblem(raw []byte) string {
	if len(raw) == 0 {
		return "is empty or missing"
	}
	if len(raw) > maxBootKey {
		return "is too long for a private key"
	}
	_, err := ssh.ParsePrivateKey(raw)
	var encrypted *ssh.PassphraseMissingError
	block, _ := pem.Decode(raw)
	switch {
	case err == nil:
		return ""
	case errors.As(err, &encrypted) || (block != nil && block.Type == "ENCRYPTED PRIVATE KEY"):
		return "is encrypted: remove the passphrase with ssh-keygen -p -N ''"
	case isPublicKey(raw, block):
		return "is a public key: the private one of the pair is needed"
	}
	return "is no private key in OpenSSH or PEM format"
}

func isPublicKey(raw []byte, block *pem.Block) bool {
	if block != nil {
		return strings.HasSuffix(block.Type, "PUBLIC KEY") || block.Type == "CERTIFICATE"
	}
	_, _, _, _, err := ssh.ParseAuthorizedKey(raw)
	return err == nil
}

// GatherConfigMap is the empty ConfigMap that step gather fills.
func GatherConfigMap(i *v1alpha1.ClusterInstance) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: i.ChildMeta(i.GatherName())}
}

// CloneBinding lets the instance's steps clone golden volumes. It stands beside
// the volumes, where an owner reference to the instance would mean nothing.
func CloneBinding(i *v1alpha1.ClusterInstance) *rbacv1.RoleBinding {
	b := binding(i, i.CloneBindingName(), "ClusterRole", guestcluster.CloneRole)
	b.Namespace, b.OwnerReferences = guestcluster.BundleNamespace, nil
	b.Annotations = map[string]string{guestcluster.OwnerInstanceAnnotation: ownerOf(i)}
	return b
}

// Owns says whether an object is the instance's own: by owner reference in its
// namespace, by label and annotation in another.
func Owns(i *v1alpha1.ClusterInstance, object metav1.Object) bool {
	if object.GetNamespace() == i.Namespace {
		return metav1.IsControlledBy(object, i)
	}
	return object.GetNamespace() == guestcluster.BundleNamespace && metav1.GetControllerOf(object) == nil &&
		object.GetLabels()[guestcluster.InstanceUIDLabel] == string(i.UID) &&
		object.GetAnnotations()[guestcluster.OwnerInstanceAnnotation] == ownerOf(i)
}

func ownerOf(i *v1alpha1.ClusterInstance) string {
	return fmt.Sprintf("%s/%s/%s", i.Namespace, i.Name, i.UID)
}
