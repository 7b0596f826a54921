package instance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/reconciler"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
	"opdev.io/guestcluster/pkg/runs"
)

// FinalizeKind implements the generated Finalizer: the finalizer goes when a
// live GET of every child says that it is gone. It needs neither Tekton nor the guest.
func (r *Reconciler) FinalizeKind(ctx context.Context, i *v1alpha1.ClusterInstance) reconciler.Event {
	original := i.DeepCopy()
	r.forget(i)
	if begun, err := r.begun(ctx, i); err != nil || !begun {
		return err
	}
	left, err := r.destroy(ctx, i, func(child) bool { return false })
	if err == nil || len(left) > 0 {
		i.MarkDeleting(waitText(left))
	}
	if err == nil && r.letGo(ctx, i, left, deletingText(original)) {
		return nil
	}
	if apierrors.IsForbidden(err) {
		i.MarkDeleting("cannot destroy: " + r.forbidden(ctx, i.Namespace, err).message)
		err = nil
	}
	if writeErr := r.writeStatus(ctx, original, i); writeErr != nil || err != nil {
		return errors.Join(writeErr, err)
	}
	return controller.NewRequeueAfter(plan.DestroyPause(i.DeletionTimestamp.Time, r.clock.Now()))
}

// begun says whether anything can exist of the instance: its endpoint is
// written before the first child. One that made nothing goes without any right
// in its namespace. One that is gone and only stands in the cache is skipped:
// to drop its finalizer would be an error and an Event.
func (r *Reconciler) begun(ctx context.Context, i *v1alpha1.ClusterInstance) (bool, error) {
	live, err := r.client.GuestclusterV1alpha1().ClusterInstances(i.Namespace).Get(ctx, i.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || (err == nil && live.UID != i.UID) {
		return false, controller.NewSkipKey(i.Namespace + "/" + i.Name)
	}
	if err != nil {
		return false, fmt.Errorf("read instance: %w", err)
	}
	return live.Status.APIEndpoint != "", nil
}

// letGo says whether the finalizer may go, and tells of runs that stay behind.
// Said is what condition Deleting said before this pass.
func (r *Reconciler) letGo(ctx context.Context, i *v1alpha1.ClusterInstance, left []plan.Remnant, said string) bool {
	text := deletingText(i)
	if !plan.LetGo(left, said == text, i.DeletionTimestamp.Time, r.clock.Now()) {
		return false
	}
	if len(left) > 0 {
		controller.GetEventRecorder(ctx).Event(i, corev1.EventTypeWarning, string(v1alpha1.ReasonDestroyWaiting),
			"no longer "+text+": nothing else is left and its steps have no rights")
	}
	return true
}

func deletingText(i *v1alpha1.ClusterInstance) string {
	if c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionDeleting); c != nil {
		return c.Message
	}
	return ""
}

func waitText(left []plan.Remnant) string {
	var texts []string
	for _, remnant := range left {
		texts = append(texts, remnant.Text)
	}
	return "waiting for " + strings.Join(texts, ", ")
}

func (r *Reconciler) forget(i *v1alpha1.ClusterInstance) {
	r.prober.Forget(keyOf(i))
	for _, t := range []*times{r.repaired, r.revoked, r.looked} {
		t.forget(i.UID)
	}
}

// cleanUp destroys the children of a failed instance at once; an ended run
// stays readable for a while, what was gathered as long as the instance.
func (r *Reconciler) cleanUp(ctx context.Context, i *v1alpha1.ClusterInstance) (time.Duration, error) {
	if meta.IsStatusConditionFalse(i.Status.Conditions, v1alpha1.ConditionDeleting) {
		return r.dropRun(ctx, i)
	}
	r.forget(i)
	ended := r.runEnded(i)
	left, err := r.destroy(ctx, i, func(c child) bool { return c.isEvidence() || (ended && c.resource == runGVR) })
	if err != nil {
		return 0, err
	}
	if len(left) > 0 {
		i.MarkDeleting(waitText(left))
		return plan.DestroyPause(i.Status.Failure.Time.Time, r.clock.Now()), nil
	}
	i.MarkDeleting("")
	_, after := plan.KeepRun(i, r.clock.Now())
	return max(after, time.Second), nil
}

func (r *Reconciler) runEnded(i *v1alpha1.ClusterInstance) bool {
	if i.Status.Run == nil {
		return false
	}
	run, err := r.runs.PipelineRuns(i.Namespace).Get(i.Status.Run.Name)
	return err == nil && run.UID == i.Status.Run.UID && runs.Outcome(run).Done()
}

// dropRun deletes the ended run when its time is over; until then it says how
// much is left. A run that the cache does not know is left to the finalizer.
func (r *Reconciler) dropRun(ctx context.Context, i *v1alpha1.ClusterInstance) (time.Duration, error) {
	if i.Status.Run == nil {
		return 0, nil
	}
	run, err := r.runs.PipelineRuns(i.Namespace).Get(i.Status.Run.Name)
	if err != nil || run.DeletionTimestamp != nil {
		return 0, nil
	}
	if keep, left := plan.KeepRun(i, r.clock.Now()); keep {
		return left, nil
	}
	_, err = r.remove(ctx, i, child{resource: runGVR, kind: "PipelineRun", name: run.Name})
	return 0, err
}

// destroy deletes all children but those to keep, in order, and names those that are not gone
// yet. One that cannot be deleted does not delay the next, but for the disk of
// a machine that is still there.
func (r *Reconciler) destroy(ctx context.Context, i *v1alpha1.ClusterInstance, keep func(child) bool) (left []plan.Remnant, err error) {
	list, err := r.children(ctx, i)
	errs := []error{err}
	machine := false
	for _, c := range list {
		if keep(c) || (machine && c.isDisk()) {
			continue
		}
		what, err := r.remove(ctx, i, c)
		if what != nil {
			left = append(left, *what)
			machine = machine || c.isMachine()
		}
		errs = append(errs, err)
	}
	return left, errors.Join(errs...)
}
