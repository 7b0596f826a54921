package bundle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/reconciler/catalog"
	"opdev.io/guestcluster/pkg/reconciler/event"
	"opdev.io/guestcluster/pkg/runs"
)

// lookAgain is for states that no watch ends.
const lookAgain = 5 * time.Second

// waitError says what a bundle waits for. It is no failure.
type waitError struct {
	reason  v1alpha1.Reason
	message string
	after   time.Duration
}

func (e *waitError) Error() string { return string(e.reason) + ": " + e.message }

// explain turns an error that a person can act on into a condition.
func explain(b *v1alpha1.CRCBundle, err error) (time.Duration, error) {
	if b.Status.Phase == v1alpha1.BundleReady || b.IsFailed() {
		return 0, err
	}
	var wait *waitError
	switch reason := catalog.Reason(err); {
	case errors.As(err, &wait):
	case reason != "":
		wait = &waitError{reason: reason, message: err.Error()} // the catalog's event brings us back
	case apierrors.IsForbidden(err):
		wait = &waitError{reason: v1alpha1.ReasonAccessMissing, after: lookAgain, message: fmt.Sprintf(
			"the controller needs its Role in namespace %s (config/206-bundle-controller-rbac.yaml), or a policy refuses: %s",
			guestcluster.BundleNamespace, runs.Redact(err.Error()))}
	default:
		return 0, err
	}
	b.MarkWaiting(wait.reason, wait.message)
	return wait.after, nil
}

// writeStatus writes once, guarded by the resourceVersion that was read.
func (r *Reconciler) writeStatus(ctx context.Context, original, b *v1alpha1.CRCBundle) error {
	if equality.Semantic.DeepEqual(original.Status, b.Status) {
		return nil
	}
	updated, err := r.client.GuestclusterV1alpha1().CRCBundles().UpdateStatus(ctx, b, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("write status of CRCBundle %s: %w", b.Name, err)
	}
	b.ResourceVersion = updated.ResourceVersion
	r.metrics.Bundle(ctx, original, b, runs.PrepareBundle)
	event.Transition(ctx, b, original.Status.Conditions, b.Status.Conditions)
	return nil
}
