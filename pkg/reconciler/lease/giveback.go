package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/reconciler/claim"
	"opdev.io/guestcluster/pkg/reconciler/lease/resources"
)

// blockedPause is how often a hand-over that a person must unblock is tried.
const blockedPause = 5 * time.Second

// giveBack deletes the access Secret and the instance. Neither waits for the
// other, and nothing waits for the guest, Tekton or a pod.
func (r *Reconciler) giveBack(ctx context.Context, lease *v1alpha1.ClusterLease) error {
	return errors.Join(r.returnInstance(ctx, lease), r.deleteSecret(ctx, lease))
}

// returnInstance makes sure that the instance the lease names is gone, going or
// another lease's. A live unclaimed one is deleted under its resourceVersion, so
// that a claim still in flight fails.
func (r *Reconciler) returnInstance(ctx context.Context, lease *v1alpha1.ClusterLease) error {
	if lease.Status.InstanceRef == nil {
		return nil
	}
	bound := lease.DeepCopy()
	bound.Status.Phase = v1alpha1.LeaseReleasing // force the live GET
	_, i, err := r.hold(ctx, bound)
	switch {
	case err != nil:
		return err
	case i == nil || i.UID != lease.Status.InstanceRef.UID || i.DeletionTimestamp != nil:
		return nil
	case i.ClaimedBy(lease):
		return claim.DeleteClaimed(ctx, r.Client, i.Namespace, i.Name, i.UID)
	case i.Spec.ClaimRef != nil:
		return nil
	default:
		return claim.DeleteOpen(ctx, r.Client, i.Namespace, i.Name, i.UID, i.ResourceVersion)
	}
}

// deleteSecret deletes the access Secret if it is this lease's. Without the
// right to (the RoleBinding or the namespace is going) it is left to garbage
// collection: its owner is the lease, and its cluster is being destroyed.
func (r *Reconciler) deleteSecret(ctx context.Context, lease *v1alpha1.ClusterLease) error {
	secrets := r.Kube.CoreV1().Secrets(lease.Namespace)
	found, err := secrets.Get(ctx, lease.AccessSecretName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get access secret: %w", err)
	}
	if !metav1.IsControlledBy(found, lease) || !resources.OfLease(found, lease.Name) {
		return nil
	}
	err = secrets.Delete(ctx, found.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &found.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return fmt.Errorf("delete access secret: %w", err)
	}
	return nil
}
