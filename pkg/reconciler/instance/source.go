package instance

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
)

// chooseBundle records what the disk is cloned from. It is written before
// anything is made: a bundle that is prepared anew meanwhile has another disk
// and another key.
func (r *Reconciler) chooseBundle(ctx context.Context, i *v1alpha1.ClusterInstance) error {
	if err := r.authorise(ctx, i); err != nil {
		return err
	}
	if err := r.catalog.CheckVirtualization(i.Spec.Type, r.clock.Now()); err != nil {
		return waitForCatalog(err)
	}
	if _, err := r.pullSecret(ctx, i); err != nil {
		return err
	}
	bundle, err := r.bundles.Get(i.Bundle())
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read CRCBundle %s: %w", i.Bundle(), err)
	}
	if err != nil {
		bundle = nil
	}
	chosen, verdict := plan.CloneSource(i, bundle)
	if !verdict.OK {
		return &waitError{reason: verdict.Reason, message: verdict.Message}
	}
	i.MarkBundle(chosen)
	i.MarkProvisioning(v1alpha1.ReasonPreparing, "the disk will be cloned from CRCBundle "+chosen.Name)
	return nil
}

// bundleKey reads the boot key first and looks at the volume then: both are
// made together, so that a key of another volume cannot pass.
func (r *Reconciler) bundleKey(ctx context.Context, i *v1alpha1.ClusterInstance) ([]byte, error) {
	name := v1alpha1.BootKeySecretName(i.Bundle())
	secret, err := r.readSecret(ctx, guestcluster.BundleNamespace, name)
	if err != nil {
		return nil, err
	}
	if err := r.sourceStands(ctx, i); err != nil {
		return nil, err
	}
	key, problem := keyIn(secret)
	if problem == "" {
		return key, nil
	}
	return nil, bundleChanged(i, fmt.Sprintf("Secret %s/%s %s", guestcluster.BundleNamespace, name, problem))
}

func bundleChanged(i *v1alpha1.ClusterInstance, what string) error {
	return &refusedError{v1alpha1.ReasonBundleChanged, fmt.Sprintf(
		"%s after the instance chose it. If CRCBundle %s is not prepared anew by itself: kubectl delete crcbundle %s", what, i.Bundle(), i.Bundle())}
}

// keepSource guards an attempt that has its identity but perhaps no disk yet:
// the key of one bundle does not open the disk of another.
func (r *Reconciler) keepSource(ctx context.Context, i *v1alpha1.ClusterInstance) error {
	if i.Bundle() == "" {
		return nil
	}
	_, err := r.dynamic.Resource(dataVolumeGVR).Namespace(i.Namespace).Get(ctx, i.DerivedName(), metav1.GetOptions{})
	if err == nil {
		return nil
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("read DataVolume %s: %w", i.DerivedName(), err)
	}
	return r.sourceStands(ctx, i)
}

// sourceStands says, from live objects, that the recorded bundle can still be cloned.
func (r *Reconciler) sourceStands(ctx context.Context, i *v1alpha1.ClusterInstance) error {
	chosen := i.ChosenBundle()
	bundle, err := r.client.GuestclusterV1alpha1().CRCBundles().Get(ctx, chosen.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read CRCBundle %s: %w", chosen.Name, err)
	}
	if err != nil {
		bundle = nil
	}
	claim, err := r.kube.CoreV1().PersistentVolumeClaims(guestcluster.BundleNamespace).Get(ctx, chosen.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read golden volume %s: %w", chosen.Name, err)
	}
	volume := types.UID("")
	if err == nil && claim.DeletionTimestamp == nil {
		volume = claim.UID
	}
	if lost := plan.CloneSourceLost(*chosen, bundle, volume); lost != "" {
		return bundleChanged(i, lost)
	}
	return nil
}
