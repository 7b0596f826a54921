package instance

import (
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"knative.dev/pkg/controller"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/reconciler/access"
)

func deleted() *v1alpha1.ClusterInstance {
	i, at := provisioning(), metav1.NewTime(worldNow)
	i.DeletionTimestamp, i.Finalizers = &at, []string{"guestcluster.opdev.io/test"}
	return i
}

// refuse makes the dynamic client answer Forbidden.
func (w *world) refuse(verb, resource string) {
	w.dynamic.PrependReactor(verb, resource, func(a clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "x", nil)
	})
	w.Reconciler.access = access.New(w.kube.AuthorizationV1().SelfSubjectAccessReviews(), w.clock)
}

func TestFinalizerNeedsNoRightsBeforeAnythingExists(t *testing.T) {
	i := deleted()
	i.Status.APIEndpoint = ""
	w := newWorld(t, []runtime.Object{i}, nil)
	w.refuse("*", "*")
	if err := w.FinalizeKind(w.ctx, i); err != nil {
		t.Errorf("the finalizer stays: %v", err)
	}
}

func TestFinalizerStaysWhileChildrenCannotBeSeen(t *testing.T) {
	for verb, resource := range map[string]string{"*": "*", "list": "pipelineruns", "get": "routes"} {
		i := deleted()
		w := newWorld(t, []runtime.Object{i.DeepCopy()}, nil)
		w.refuse(verb, resource)
		i.Status.APIEndpoint = "" // only the cache says that nothing was made
		if err := w.FinalizeKind(w.ctx, i); err == nil || !strings.Contains(deletingText(i), "cannot destroy") {
			t.Errorf("%s %s is forbidden: got %v, condition Deleting says %q", verb, resource, err, deletingText(i))
		}
	}
}

func TestFinalizerSkipsAnInstanceOfTheCache(t *testing.T) {
	w := newWorld(t, nil, nil)
	if err := w.FinalizeKind(w.ctx, deleted()); !controller.IsSkipKey(err) {
		t.Errorf("got %v", err)
	}
}

func TestFinalizerLeavesAStragglingRun(t *testing.T) {
	i := deleted()
	run := asChild(i, runGVR.GroupVersion(), "PipelineRun", i.RunName(0))
	run.SetDeletionTimestamp(i.DeletionTimestamp)
	run.SetFinalizers([]string{"example.com/archive"})
	w := newWorld(t, []runtime.Object{i.DeepCopy()}, []runtime.Object{run})
	clock := clocktesting.NewFakeClock(worldNow)
	w.clock = clock
	if err := w.FinalizeKind(w.ctx, i); err == nil || !strings.Contains(deletingText(i), "kept by finalizer example.com/archive") {
		t.Fatalf("got %v, condition Deleting says %q", err, deletingText(i))
	}
	clock.Step(time.Minute)
	for len(w.events.Events) > 0 {
		<-w.events.Events
	}
	if err := w.FinalizeKind(w.ctx, i); err != nil {
		t.Fatalf("the run keeps the finalizer: %v", err)
	}
	if event := <-w.events.Events; !strings.Contains(event, i.RunName(0)) {
		t.Errorf("Event %q does not name the run", event)
	}
}

func TestWhatWasGatheredGoesWithTheInstance(t *testing.T) {
	i := deleted()
	i.Spec.Type = v1alpha1.TypeCRC
	gathered := asChild(i, schema.GroupVersion{Version: "v1"}, "ConfigMap", i.GatherName())
	w := newWorld(t, []runtime.Object{i.DeepCopy()}, []runtime.Object{gathered})
	failed := i.DeepCopy()
	failed.DeletionTimestamp = nil
	w.markFailed(failed, v1alpha1.ReasonRunFailed, v1alpha1.FailureStatus{})
	if _, err := w.cleanUp(w.ctx, failed); err != nil || len(deletions(w.dynamic.Actions(), "configmaps")) != 0 {
		t.Errorf("the failed instance stays: error %v, %v", err, deletions(w.dynamic.Actions(), "configmaps"))
	}
	if err := w.FinalizeKind(w.ctx, i); err != nil || len(deletions(w.dynamic.Actions(), "configmaps")) != 1 {
		t.Errorf("the instance goes: error %v, %v", err, deletions(w.dynamic.Actions(), "configmaps"))
	}
}
