package event

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"knative.dev/pkg/controller"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// Object is one of our kinds.
type Object interface {
	metav1.Object
	runtime.Object
}

// Transition records an Event when Ready has another reason or status in after
// than in before, the object's conditions. False is a warning, but not of an
// object that is being deleted.
func Transition(ctx context.Context, object Object, before, after []metav1.Condition) {
	was := meta.FindStatusCondition(before, v1alpha1.ConditionReady)
	is := meta.FindStatusCondition(after, v1alpha1.ConditionReady)
	if is == nil || (was != nil && was.Reason == is.Reason && was.Status == is.Status) {
		return
	}
	kind := corev1.EventTypeNormal
	if is.Status == metav1.ConditionFalse && object.GetDeletionTimestamp() == nil {
		kind = corev1.EventTypeWarning
	}
	message := is.Message
	if message == "" {
		message = "condition Ready is " + string(is.Status)
	}
	controller.GetEventRecorder(ctx).Event(object, kind, is.Reason, message)
}
