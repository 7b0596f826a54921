package lease

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/controller"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
	"opdev.io/guestcluster/pkg/reconciler/access"
	"opdev.io/guestcluster/pkg/reconciler/claim"
	"opdev.io/guestcluster/pkg/reconciler/lease/resources"
)

// handOver copies the kubeconfig into the access Secret and marks the lease Bound.
func (r *Reconciler) handOver(ctx context.Context, lease *v1alpha1.ClusterLease, instance *v1alpha1.ClusterInstance, ttl *v1alpha1.Duration) error {
	before := lease.DeepCopy()
	source, err := r.Kube.CoreV1().Secrets(instance.Namespace).Get(ctx, instance.KubeconfigSecretName(), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get kubeconfig of instance %s/%s: %w", instance.Namespace, instance.Name, err)
	}
	if !metav1.IsControlledBy(source, instance) || len(source.Data[guestcluster.KubeconfigKey]) == 0 {
		return fmt.Errorf("secret %s/%s is not the kubeconfig of instance %s", source.Namespace, source.Name, instance.Name)
	}
	blocked, message, err := r.ensureSecret(ctx, lease, resources.AccessSecret(lease, source))
	if err != nil {
		return err
	}
	if blocked != "" {
		lease.MarkBlocked(blocked, message)
		r.EnqueueAfter(lease, blockedPause)
		return claim.WriteStatus(ctx, r.Client, before, lease)
	}
	lease.MarkBound(v1alpha1.BoundFacts{
		Secret: lease.AccessSecretName(), OCPVersion: instance.Status.OCPVersion,
		Topology: instance.Status.Topology, APIEndpoint: instance.Status.APIEndpoint, TTL: ttl,
	}, metav1.NewTime(r.Clock.Now()))
	if err := claim.WriteStatus(ctx, r.Client, before, lease); err != nil {
		return err
	}
	controller.GetEventRecorder(ctx).Event(lease, corev1.EventTypeNormal, string(v1alpha1.ReasonInstanceBound), lease.Status.BoundMessage())
	return nil
}

// ensureSecret makes the access Secret. A Secret of an older lease of the same
// name is deleted by UID and made anew; anybody else's is never written.
func (r *Reconciler) ensureSecret(ctx context.Context, lease *v1alpha1.ClusterLease, wanted *corev1.Secret) (v1alpha1.Reason, string, error) {
	secrets := r.Kube.CoreV1().Secrets(lease.Namespace)
	_, err := secrets.Create(ctx, wanted, metav1.CreateOptions{})
	switch {
	case err == nil:
		return "", "", nil
	case apierrors.IsForbidden(err):
		return v1alpha1.ReasonAccessMissing, plan.AccessMissing(lease.Namespace, access.Command(lease.Namespace, access.LeasesRole)), nil
	case !apierrors.IsAlreadyExists(err):
		return "", "", fmt.Errorf("create access secret: %w", err)
	}
	found, err := secrets.Get(ctx, wanted.Name, metav1.GetOptions{})
	if err != nil {
		return "", "", fmt.Errorf("get access secret: %w", err)
	}
	switch {
	case metav1.IsControlledBy(found, lease) && found.DeletionTimestamp == nil && sameData(found, wanted):
		return "", "", nil
	case resources.OfLease(found, lease.Name):
		if err := secrets.Delete(ctx, found.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &found.UID}}); err != nil && !apierrors.IsNotFound(err) {
			return "", "", fmt.Errorf("delete access secret of an older lease: %w", err)
		}
		_, err = secrets.Create(ctx, wanted, metav1.CreateOptions{})
		if err != nil {
			return "", "", fmt.Errorf("create access secret: %w", err)
		}
		return "", "", nil
	}
	return v1alpha1.ReasonAccessSecretConflict, fmt.Sprintf(
		"Secret %s/%s exists and is not of this lease: delete or rename it", found.Namespace, found.Name), nil
}

func sameData(a, b *corev1.Secret) bool {
	return maps.EqualFunc(a.Data, b.Data, func(x, y []byte) bool { return string(x) == string(y) })
}
