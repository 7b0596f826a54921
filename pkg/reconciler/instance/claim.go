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
	"opdev.io/guestcluster/pkg/reconciler/claim"
)

// deleteUnwanted deletes an instance that nobody will ever ask for again.
func (r *Reconciler) deleteUnwanted(ctx context.Context, i *v1alpha1.ClusterInstance) (bool, error) {
	orphaned, err := r.deleteOrphan(ctx, i)
	if err != nil || orphaned {
		return orphaned, err
	}
	return r.deleteStray(ctx, i)
}

// deleteStray deletes an unclaimed instance whose pool is gone: a pool that
// makes it while it is being deleted itself may not see it any more. Before
// anything of it exists the cache is not believed at all.
func (r *Reconciler) deleteStray(ctx context.Context, i *v1alpha1.ClusterInstance) (bool, error) {
	ref := i.Spec.PoolRef
	if ref == nil || i.Spec.ClaimRef != nil {
		return false, nil
	}
	cached, err := r.pools.ClusterPools(i.Namespace).Get(ref.Name)
	if err == nil && i.Status.APIEndpoint != "" && plan.PoolStands(i, cached) {
		return false, nil
	}
	pool, err := r.client.GuestclusterV1alpha1().ClusterPools(i.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !notServed(err) {
		pool, err = nil, nil
	}
	if err != nil {
		return false, fmt.Errorf("read pool %s: %w", ref.Name, err)
	}
	if plan.PoolStands(i, pool) {
		return false, nil
	}
	if err := claim.DeleteOpen(ctx, r.client, i.Namespace, i.Name, i.UID, i.ResourceVersion); err != nil {
		return false, err
	}
	controller.GetEventRecorder(ctx).Eventf(i, corev1.EventTypeNormal, string(v1alpha1.ReasonPoolNotFound),
		"its pool %s is gone or being deleted: deleted with it", ref.Name)
	return true, nil
}

// deleteOrphan deletes a claimed instance whose lease no longer holds it. The
// cache may say so too early: a live GET decides.
func (r *Reconciler) deleteOrphan(ctx context.Context, i *v1alpha1.ClusterInstance) (bool, error) {
	ref := i.Spec.ClaimRef
	if ref == nil {
		return false, nil
	}
	if cached, err := r.leases.ClusterLeases(ref.LeaseNamespace).Get(ref.LeaseName); err == nil && plan.ClaimStands(i, cached) {
		return false, nil
	}
	lease, err := r.client.GuestclusterV1alpha1().ClusterLeases(ref.LeaseNamespace).Get(ctx, ref.LeaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease, err = nil, nil
	}
	if err != nil {
		return false, fmt.Errorf("read lease %s/%s: %w", ref.LeaseNamespace, ref.LeaseName, err)
	}
	if plan.ClaimStands(i, lease) {
		return false, nil
	}
	if err := claim.DeleteClaimed(ctx, r.client, i.Namespace, i.Name, i.UID); err != nil {
		return false, err
	}
	controller.GetEventRecorder(ctx).Eventf(i, corev1.EventTypeNormal, string(v1alpha1.ReasonReleased),
		"lease %s/%s does not hold this instance any more", ref.LeaseNamespace, ref.LeaseName)
	return true, nil
}

// onlyThis deletes the object with this UID and no other of its name.
func onlyThis(uid types.UID) metav1.DeleteOptions {
	background := metav1.DeletePropagationBackground
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &background}
}
