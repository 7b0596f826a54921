package customrun

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/tektoncd/pipeline/pkg/apis/pipeline/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis/duck"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
)

// act does one step and returns the CustomRun as it is then.
func (r *Reconciler) act(ctx context.Context, run *v1beta1.CustomRun, seen plan.CustomRunFacts, next plan.CustomRunPlan) (*v1beta1.CustomRun, error) {
	switch next.Step {
	case plan.CustomRunProtect:
		return r.setFinalizers(ctx, run, append(slices.Clone(run.Finalizers), guestcluster.CustomRunFinalizer))
	case plan.CustomRunForget:
		others := slices.DeleteFunc(slices.Clone(run.Finalizers), func(f string) bool { return f == guestcluster.CustomRunFinalizer })
		return r.setFinalizers(ctx, run, others)
	case plan.CustomRunCreate:
		return r.create(ctx, run, seen)
	case plan.CustomRunReplace:
		return run, r.delete(ctx, seen.Lease, nil)
	case plan.CustomRunRemoveLease:
		return run, r.delete(ctx, seen.Lease, &seen.Lease.ResourceVersion)
	case plan.CustomRunGiveBack:
		return run, r.release(ctx, seen.Lease)
	case plan.CustomRunRelease:
		if err := r.release(ctx, seen.Lease); err != nil {
			return run, err
		}
	}
	return r.tell(ctx, run, seen, next)
}

// tell writes the status that a step comes to, and one Event of the end.
func (r *Reconciler) tell(ctx context.Context, run *v1beta1.CustomRun, seen plan.CustomRunFacts, next plan.CustomRunPlan) (*v1beta1.CustomRun, error) {
	after := run.DeepCopy()
	if err := mark(&after.Status, seen, next, metav1.NewTime(r.clock.Now())); err != nil {
		return run, err
	}
	written, err := r.writeStatus(ctx, run, after)
	if err != nil {
		return run, err
	}
	if written.IsDone() {
		kind := corev1.EventTypeNormal
		if !written.IsSuccessful() {
			kind = corev1.EventTypeWarning
		}
		subject := written.DeepCopy() // our scheme does not know the kind
		subject.SetGroupVersionKind(written.GetGroupVersionKind())
		r.events.Event(subject, kind, string(next.Reason), next.Message)
	}
	return written, nil
}

func (r *Reconciler) create(ctx context.Context, run *v1beta1.CustomRun, seen plan.CustomRunFacts) (*v1beta1.CustomRun, error) {
	lease := seen.Order.Lease()
	lease.Annotations = map[string]string{guestcluster.CustomRunAnnotation: string(run.UID)}
	_, err := r.client.GuestclusterV1alpha1().ClusterLeases(run.Namespace).Create(ctx, lease, metav1.CreateOptions{})
	switch {
	case err == nil, apierrors.IsAlreadyExists(err):
		return run, nil
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err):
		return r.tell(ctx, run, seen, seen.Refused(fmt.Errorf("create lease: %w", err)))
	}
	return run, fmt.Errorf("create lease %s/%s: %w", lease.Namespace, lease.Name, err)
}

// delete deletes exactly this lease; with a resource version, only if it is
// still as it was seen.
func (r *Reconciler) delete(ctx context.Context, lease *v1alpha1.ClusterLease, version *string) error {
	err := r.client.GuestclusterV1alpha1().ClusterLeases(lease.Namespace).Delete(ctx, lease.Name,
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: version}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete lease %s/%s: %w", lease.Namespace, lease.Name, err)
	}
	return nil
}

// release sets spec.release of the lease that was read.
func (r *Reconciler) release(ctx context.Context, lease *v1alpha1.ClusterLease) error {
	patch, err := guarded(lease, map[string]any{"spec": map[string]any{"release": true}})
	if err != nil {
		return err
	}
	_, err = r.client.GuestclusterV1alpha1().ClusterLeases(lease.Namespace).Patch(ctx, lease.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("release lease %s/%s: %w", lease.Namespace, lease.Name, err)
	}
	return nil
}

func (r *Reconciler) setFinalizers(ctx context.Context, run *v1beta1.CustomRun, finalizers []string) (*v1beta1.CustomRun, error) {
	patch, err := guarded(run, map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
	if err != nil {
		return run, err
	}
	written, err := r.tekton.TektonV1beta1().CustomRuns(run.Namespace).Patch(ctx, run.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return run, fmt.Errorf("set finalizers of CustomRun %s/%s: %w", run.Namespace, run.Name, err)
	}
	return written, nil
}

// writeStatus writes only the fields that changed, and only over the status
// that was read. A conflict is returned: whoever wrote before wakes us again.
func (r *Reconciler) writeStatus(ctx context.Context, before, after *v1beta1.CustomRun) (*v1beta1.CustomRun, error) {
	raw, err := duck.CreateMergePatch(before, after)
	if err != nil {
		return before, fmt.Errorf("compare status of CustomRun %s/%s: %w", before.Namespace, before.Name, err)
	}
	changes := map[string]any{}
	if err := json.Unmarshal(raw, &changes); err != nil {
		return before, fmt.Errorf("read patch: %w", err)
	}
	patch, err := guarded(before, changes)
	if err != nil {
		return before, err
	}
	written, err := r.tekton.TektonV1beta1().CustomRuns(before.Namespace).Patch(ctx, before.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return before, fmt.Errorf("write status of CustomRun %s/%s: %w", before.Namespace, before.Name, err)
	}
	return written, nil
}

// guarded is a merge patch that applies only to the object that was read.
func guarded(object metav1.Object, patch map[string]any) ([]byte, error) {
	meta, ok := patch["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
	}
	meta["uid"], meta["resourceVersion"] = object.GetUID(), object.GetResourceVersion()
	patch["metadata"] = meta
	raw, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode patch: %w", err)
	}
	return raw, nil
}
