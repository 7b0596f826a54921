package instance

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/reconciler/event"
	"opdev.io/guestcluster/pkg/runs"
)

// lookAgain is for states that no watch ends.
const lookAgain = 5 * time.Second

// waitError says what an instance waits for. It is no failure.
type waitError struct {
	reason  v1alpha1.Reason
	message string
	// denied: an admin must allow something first.
	denied bool
	// after is zero when a watch tells.
	after time.Duration
}

func (e *waitError) Error() string { return string(e.reason) + ": " + e.message }

// refusedError says that what an instance is to be made from cannot be used:
// it fails, and its pool tries again with the pauses of its breaker.
type refusedError struct {
	reason  v1alpha1.Reason
	message string
}

func (e *refusedError) Error() string { return string(e.reason) + ": " + e.message }

// foreignError says that a child's name is taken by an object that is not ours.
type foreignError struct{ kind, namespace, name string }

func (e *foreignError) Error() string {
	return fmt.Sprintf("%s %s/%s exists and does not belong to this instance: delete it or rename it", e.kind, e.namespace, e.name)
}

// explain turns an error that a person can act on into conditions.
func (r *Reconciler) explain(ctx context.Context, i *v1alpha1.ClusterInstance, err error) (time.Duration, error) {
	var wait *waitError
	var foreign *foreignError
	var refused *refusedError
	switch {
	case errors.As(err, &refused):
		r.markFailed(i, refused.reason, v1alpha1.FailureStatus{Message: refused.message})
		return 0, nil
	case errors.As(err, &wait):
	case errors.As(err, &foreign):
		wait = &waitError{reason: v1alpha1.ReasonForeignObject, message: foreign.Error(), after: lookAgain}
	case apierrors.IsForbidden(err):
		wait = r.forbidden(ctx, i.Namespace, err)
	default:
		return 0, err
	}
	switch {
	case wait.denied || (i.IsProvisioned() && !i.IsFailed()):
		i.MarkNotAllowed(wait.reason, wait.message)
	case i.IsFailed():
		return 0, err
	default:
		i.MarkProvisioning(wait.reason, wait.message)
	}
	return wait.after, nil
}

// forbidden names the command that gives the missing right, or what the API
// server said when the right is there: a quota or a policy, for example.
func (r *Reconciler) forbidden(ctx context.Context, namespace string, err error) *waitError {
	wait := &waitError{reason: v1alpha1.ReasonAccessMissing, message: runs.Redact(err.Error()), denied: true, after: lookAgain}
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		wait.reason = v1alpha1.ReasonNamespaceTerminating
		return wait
	}
	if command, ok, askErr := r.access.Instances(ctx, namespace); askErr == nil && !ok {
		wait.message = "an admin must run: " + command
	}
	return wait
}

// writeStatus writes once, guarded by the resourceVersion that was read: a
// conflict means that this pass was decided on old facts and is done anew.
func (r *Reconciler) writeStatus(ctx context.Context, original, i *v1alpha1.ClusterInstance) error {
	i.MarkDerived()
	if equality.Semantic.DeepEqual(original.Status, i.Status) {
		return nil
	}
	updated, err := r.client.GuestclusterV1alpha1().ClusterInstances(i.Namespace).UpdateStatus(ctx, i, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	i.ResourceVersion = updated.ResourceVersion
	r.metrics.Instance(ctx, original, i)
	event.Transition(ctx, i, original.Status.Conditions, i.Status.Conditions)
	return nil
}
