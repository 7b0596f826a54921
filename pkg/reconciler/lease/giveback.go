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
// other, and nothing waits for the guest, Tekton or a pod. left is a text about
// a Secret that only garbage collection can delete.
func (r *Reconciler) giveBack(ctx context.Context, lease *v1alpha1.ClusterLease) (left string, err error) {
	err = r.returnInstance(ctx, lease)
	left, secretErr := r.deleteSecret(ctx, lease)
	return left, errors.Join(err, secretErr)
}

// returnInstance makes sure that the instance the lease names is gone, going or
// another lease's. A live unclaimed one is deleted under its resourceVersion, so
// that a claim still in flight fails.
func (r *Reconciler) returnInstance(ctx context.Context, lease *v1alpha1.ClusterLease) error {
	if lease.Status.InstanceRef == nil {
		return nil
	}
	_, i, err := r.hold(ctx, lease)
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
func (r *Reconciler) deleteSecret(ctx context.Context, lease *v1alpha1.ClusterLease) (left string, err error) {
	secrets := r.Kube.CoreV1().Secrets(lease.Namespace)
	name := lease.AccessSecretName()
	found, err := secrets.Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		if !metav1.IsControlledBy(found, lease) || !resources.OfLease(found, lease.Name) {
			return "", nil
		}
		err = secrets.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &found.UID}})
	}
	switch {
	case err == nil || apierrors.IsNotFound(err):
		return "", nil
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("; Secret %s goes with the lease: the controller has no rights in namespace %s any more", name, lease.Namespace), nil
	}
	return "", fmt.Errorf("delete access secret: %w", err)
}
