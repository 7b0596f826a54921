package lease

import (
	"context"
	"fmt"
	"maps"
	"time"

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
	"opdev.io/guestcluster/pkg/reconciler/probe"
)

// handOver copies the kubeconfig into the access Secret and marks the lease Bound.
func (r *Reconciler) handOver(ctx context.Context, lease *v1alpha1.ClusterLease, instance *v1alpha1.ClusterInstance, ttl *v1alpha1.Duration) error {
	source, obstacle, err := r.kubeconfig(ctx, instance)
	if err == nil && obstacle == nil {
		obstacle, err = r.ensureSecret(ctx, lease, resources.AccessSecret(lease, source))
	}
	if err != nil {
		return err
	}
	if obstacle != nil {
		return r.blocked(ctx, lease, *obstacle)
	}
	before := lease.DeepCopy()
	lease.MarkBound(v1alpha1.BoundFacts{
		Secret: lease.AccessSecretName(), OCPVersion: instance.Status.OCPVersion,
		Topology: instance.Status.Topology, APIEndpoint: instance.Status.APIEndpoint, TTL: ttl,
	}, metav1.NewTime(r.Clock.Now()))
	if err := claim.WriteStatus(ctx, r.Client, before, lease); err != nil {
		return err
	}
	r.Metrics.Bound(ctx, lease, instance)
	controller.GetEventRecorder(ctx).Event(lease, corev1.EventTypeNormal, string(v1alpha1.ReasonInstanceBound), lease.Status.BoundMessage())
	return nil
}

// restoreEvery is how often a Bound lease's Secret is looked for: Secrets are not watched.
const restoreEvery = 3 * time.Minute

// restore makes the access Secret of a Bound lease again if somebody deleted
// it. Without a kubeconfig to copy the lease ends: nobody could use its cluster.
func (r *Reconciler) restore(ctx context.Context, lease *v1alpha1.ClusterLease, instance *v1alpha1.ClusterInstance) error {
	_, err := r.Kube.CoreV1().Secrets(lease.Namespace).Get(ctx, lease.AccessSecretName(), metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return nil // there, or not ours to see
	}
	source, obstacle, err := r.kubeconfig(ctx, instance)
	switch {
	case err != nil:
		return err
	case obstacle != nil && obstacle.Final:
		return r.end(ctx, lease, plan.LeasePlan{Step: plan.LeaseEnd, Reason: obstacle.Reason, Message: obstacle.Message})
	case obstacle != nil:
		return nil
	}
	_, err = r.ensureSecret(ctx, lease, resources.AccessSecret(lease, source))
	return err
}

// blocked tells what stands in the way of a hand-over. A person may remove it,
// but a claimed cluster is not held for that longer than plan.BlockedLimit.
func (r *Reconciler) blocked(ctx context.Context, lease *v1alpha1.ClusterLease, o plan.Obstacle) error {
	if plan.BlockedTooLong(lease, o, r.Clock.Now()) {
		return r.end(ctx, lease, plan.LeasePlan{Step: plan.LeaseEnd, Reason: o.Reason, Message: o.Message})
	}
	before := lease.DeepCopy()
	lease.MarkBlocked(o.Reason, o.Message)
	r.EnqueueAfter(lease, blockedPause)
	return claim.WriteStatus(ctx, r.Client, before, lease)
}

// kubeconfig reads the instance's kubeconfig and checks it as when the instance
// was accepted: whoever can write Secrets there could have changed it since.
func (r *Reconciler) kubeconfig(ctx context.Context, instance *v1alpha1.ClusterInstance) (*corev1.Secret, *plan.Obstacle, error) {
	name := instance.KubeconfigSecretName()
	source, err := r.Kube.CoreV1().Secrets(instance.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return nil, &plan.Obstacle{Reason: v1alpha1.ReasonAccessMissing,
			Message: plan.AccessMissing(instance.Namespace, access.Command(instance.Namespace, access.InstancesRole))}, nil
	case apierrors.IsNotFound(err):
		return nil, lostKubeconfig(instance, "it is gone"), nil
	case err != nil:
		return nil, nil, fmt.Errorf("get kubeconfig of instance %s/%s: %w", instance.Namespace, instance.Name, err)
	case !metav1.IsControlledBy(source, instance):
		return nil, lostKubeconfig(instance, "it is not the instance's"), nil
	case instance.Status.Run == nil || string(source.Data[guestcluster.RunUIDKey]) != string(instance.Status.Run.UID):
		return nil, lostKubeconfig(instance, "it was written for another run"), nil
	}
	if _, err := probe.Parse(source.Data[guestcluster.KubeconfigKey], instance.Status.APIEndpoint); err != nil {
		return nil, lostKubeconfig(instance, "its kubeconfig was changed"), nil
	}
	return source, nil, nil
}

func lostKubeconfig(instance *v1alpha1.ClusterInstance, why string) *plan.Obstacle {
	return &plan.Obstacle{Reason: v1alpha1.ReasonInstanceLost, Final: true, Message: fmt.Sprintf(
		"Secret %s/%s cannot be handed out: %s; make another lease", instance.Namespace, instance.KubeconfigSecretName(), why)}
}

// ensureSecret makes the access Secret. A Secret of an older lease of the same
// name is deleted by UID and made anew; anybody else's is never written.
func (r *Reconciler) ensureSecret(ctx context.Context, lease *v1alpha1.ClusterLease, wanted *corev1.Secret) (*plan.Obstacle, error) {
	secrets := r.Kube.CoreV1().Secrets(lease.Namespace)
	_, err := secrets.Create(ctx, wanted, metav1.CreateOptions{})
	switch {
	case err == nil:
		return nil, nil
	case apierrors.IsForbidden(err):
		return &plan.Obstacle{Reason: v1alpha1.ReasonAccessMissing,
			Message: plan.AccessMissing(lease.Namespace, access.Command(lease.Namespace, access.LeasesRole))}, nil
	case !apierrors.IsAlreadyExists(err):
		return nil, fmt.Errorf("create access secret: %w", err)
	}
	found, err := secrets.Get(ctx, wanted.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get access secret: %w", err)
	}
	switch {
	case metav1.IsControlledBy(found, lease) && found.DeletionTimestamp == nil && sameData(found, wanted):
		return nil, nil
	case resources.OfLease(found, lease.Name):
		return nil, r.replaceSecret(ctx, found, wanted)
	}
	return &plan.Obstacle{Reason: v1alpha1.ReasonAccessSecretConflict, Message: fmt.Sprintf(
		"Secret %s/%s exists and is not of this lease: delete or rename it", found.Namespace, found.Name)}, nil
}

func (r *Reconciler) replaceSecret(ctx context.Context, old, wanted *corev1.Secret) error {
	secrets := r.Kube.CoreV1().Secrets(wanted.Namespace)
	err := secrets.Delete(ctx, old.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &old.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete access secret of an older lease: %w", err)
	}
	if _, err := secrets.Create(ctx, wanted, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create access secret: %w", err)
	}
	return nil
}

func sameData(a, b *corev1.Secret) bool {
	return maps.EqualFunc(a.Data, b.Data, func(x, y []byte) bool { return string(x) == string(y) })
}
