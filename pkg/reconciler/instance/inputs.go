package instance

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
	"opdev.io/guestcluster/pkg/reconciler/instance/resources"
)

// inputs checks and reads what others provide, before anything exists; nil for
// a topology that needs nothing, or when the identity Secret has its copies.
func (r *Reconciler) inputs(ctx context.Context, i *v1alpha1.ClusterInstance) (*resources.Inputs, error) {
	if i.Spec.Type != v1alpha1.TypeCRC {
		return nil, nil
	}
	if err := r.catalog.CheckVirtualization(i.Spec.Type, r.clock.Now()); err != nil {
		return nil, waitForCatalog(err)
	}
	return r.readInputs(ctx, i)
}

func (r *Reconciler) readInputs(ctx context.Context, i *v1alpha1.ClusterInstance) (*resources.Inputs, error) {
	identity, err := r.readSecret(ctx, i.Namespace, i.IdentitySecretName())
	if err != nil {
		return nil, err
	}
	if identity != nil {
		return nil, r.keepSource(ctx, i)
	}
	pullSecret, err := r.pullSecret(ctx, i)
	if err != nil {
		return nil, err
	}
	key, err := r.bootKey(ctx, i)
	if err != nil {
		return nil, err
	}
	return &resources.Inputs{BootKey: key, PullSecret: pullSecret}, nil
}

// readSecret returns a Secret, or nil when there is none.
func (r *Reconciler) readSecret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	secret, err := r.kube.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s/%s: %w", namespace, name, err)
	}
	return secret, nil
}

func (r *Reconciler) pullSecret(ctx context.Context, i *v1alpha1.ClusterInstance) ([]byte, error) {
	name := guestcluster.DefaultPullSecret
	if ref := i.Spec.Template.PullSecretRef; ref != nil {
		name = ref.Name
	}
	secret, err := r.readSecret(ctx, i.Namespace, name)
	if err != nil {
		return nil, err
	}
	problem := "it does not exist"
	if secret != nil {
		raw := secret.Data[guestcluster.DockerConfigKey]
		if problem = plan.PullSecretProblem(raw); problem == "" {
			return raw, nil
		}
		problem = "key " + guestcluster.DockerConfigKey + ": " + problem
	}
	return nil, &refusedError{v1alpha1.ReasonInvalidPullSecret, fmt.Sprintf(
		"Secret %s/%s is no pull secret: %s. Download one from console.redhat.com/openshift/install/pull-secret, delete the Secret if it exists, and: "+
			"kubectl -n %s create secret generic %s --from-file=%s=./pull-secret.json --type=%s",
		i.Namespace, name, problem, i.Namespace, name, guestcluster.DockerConfigKey, corev1.SecretTypeDockerConfigJson)}
}

// bootKey is the key that the disk trusts: the bundle's, or the one that the
// template names beside a disk image.
func (r *Reconciler) bootKey(ctx context.Context, i *v1alpha1.ClusterInstance) ([]byte, error) {
	if i.Bundle() != "" {
		return r.bundleKey(ctx, i)
	}
	ref := i.Spec.Template.BundleSSHKeyRef
	if ref == nil {
		return nil, &refusedError{v1alpha1.ReasonMissingBundleSSHKey, "template.bundleSSHKeyRef is not set: it goes with template.releaseImage"}
	}
	secret, err := r.readSecret(ctx, i.Namespace, ref.Name)
	if err != nil {
		return nil, err
	}
	key, problem := keyIn(secret)
	if problem == "" {
		return key, nil
	}
	return nil, &refusedError{v1alpha1.ReasonMissingBundleSSHKey, fmt.Sprintf(
		"Secret %s/%s %s. Take id_ecdsa_crc from the bundle, delete the Secret if it exists, and: kubectl -n %s create secret generic %s --from-file=%s=./id_ecdsa_crc",
		i.Namespace, ref.Name, problem, i.Namespace, ref.Name, guestcluster.BootKeyKey)}
}

// keyIn returns the boot key of a Secret, nil for none, or why there is none.
func keyIn(secret *corev1.Secret) (key []byte, problem string) {
	if secret == nil {
		return nil, "does not exist"
	}
	key = secret.Data[guestcluster.BootKeyKey]
	if problem := resources.BootKeyProblem(key); problem != "" {
		return nil, "has no usable key " + guestcluster.BootKeyKey + ": it " + problem
	}
	return key, ""
}
