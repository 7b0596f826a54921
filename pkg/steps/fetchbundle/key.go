package fetchbundle

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/steps/bundle"
	"opdev.io/guestcluster/pkg/steps/step"
)

// checkKey wants a private key that a step can use. No part of it is in an error.
func checkKey(members *bundle.Members) error {
	_, err := ssh.ParseRawPrivateKey(members.Key())
	var locked *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &locked):
		return step.UserError("private key %s of the bundle is encrypted", members.Info.Key)
	case err != nil:
		return step.UserError("%s of the bundle is not a private key", members.Info.Key)
	}
	return nil
}

// keepKey writes the boot key, and beside it which bundle it is of.
func (f *Fetcher) keepKey(ctx context.Context, members *bundle.Members, sum string) error {
	secret := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: bundle.Meta(f.Name(), f.BundleUID, v1alpha1.BootKeySecretName(f.Name()), f.Namespace),
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{guestcluster.BootKeyKey: members.Key()},
	}
	maps.Copy(secret.Annotations, bundle.Annotations(sum, members.Info))
	secret.Annotations[guestcluster.PrepareRunAnnotation] = f.RunUID
	err := step.Retry(ctx, f.Pause, f.Progress, func(ctx context.Context) error {
		err := f.write(ctx, secret)
		if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return step.ErrAgain
		}
		return bundle.Classify("write boot key", err)
	})
	if err == nil {
		fmt.Fprintf(f.Progress, "wrote Secret %s/%s\n", f.Namespace, secret.Name)
	}
	return err
}

func (f *Fetcher) write(ctx context.Context, secret *corev1.Secret) error {
	seen, err := f.Volumes.Keys.Get(ctx, secret.Name)
	if apierrors.IsNotFound(err) {
		_, err = f.Volumes.Keys.Create(ctx, secret)
		return err
	}
	if err != nil {
		return err
	}
	switch {
	case seen.Labels[guestcluster.BundleLabel] != f.Name():
		return step.UserError("Secret %s/%s is not a boot key: it lacks label %s=%s; delete it if it is of no use", f.Namespace, seen.Name, guestcluster.BundleLabel, f.Name())
	case seen.DeletionTimestamp != nil:
		return fmt.Errorf("an old one is being deleted")
	}
	change := secret.ObjectMeta
	if seen.OwnerReferences != nil {
		change.OwnerReferences = nil
	}
	patch, err := bundle.Patch(seen.ObjectMeta, change, secret.Data)
	if err != nil {
		return err
	}
	_, err = f.Volumes.Keys.Patch(ctx, seen.Name, patch)
	return err
}
