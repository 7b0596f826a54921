package instance

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/controller"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
)

// deleteOrphan deletes a claimed instance whose lease no longer holds it. The
// cache may say so too early: a live GET decides.
func (r *Reconciler) deleteOrphan(ctx context.Context, i *v1alpha1.ClusterInstance) (bool, error) {
	claim := i.Spec.ClaimRef
	if claim == nil {
		return false, nil
	}
	if cached, err := r.leases.ClusterLeases(claim.LeaseNamespace).Get(claim.LeaseName); err == nil && plan.ClaimStands(i, cached) {
		return false, nil
	}
	lease, err := r.client.GuestclusterV1alpha1().ClusterLeases(claim.LeaseNamespace).Get(ctx, claim.LeaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease, err = nil, nil
	}
	if err != nil {
		return false, fmt.Errorf("read lease %s/%s: %w", claim.LeaseNamespace, claim.LeaseName, err)
	}
	if plan.ClaimStands(i, lease) {
		return false, nil
	}
	err = r.client.GuestclusterV1alpha1().ClusterInstances(i.Namespace).Delete(ctx, i.Name, onlyThis(i.UID))
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("delete orphaned instance: %w", err)
	}
	controller.GetEventRecorder(ctx).Eventf(i, corev1.EventTypeNormal, string(v1alpha1.ReasonReleased),
		"lease %s/%s does not hold this instance any more", claim.LeaseNamespace, claim.LeaseName)
	return true, nil
}

// onlyThis deletes the object with this UID and no other of its name.
func onlyThis(uid types.UID) metav1.DeleteOptions {
	background := metav1.DeletePropagationBackground
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &background}
}
