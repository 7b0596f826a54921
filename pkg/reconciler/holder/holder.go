// Package holder answers whether the PipelineRun that a lease serves still
// runs. It trims the shared PipelineRun informer to what the controller reads.
package holder

import (
	"context"
	"fmt"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	tekton "github.com/tektoncd/pipeline/pkg/client/clientset/versioned"
	pipelineruninformer "github.com/tektoncd/pipeline/pkg/client/injection/informers/pipeline/v1/pipelinerun"
	listers "github.com/tektoncd/pipeline/pkg/client/listers/pipeline/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
)

// Checker looks holders up.
type Checker struct {
	Client tekton.Interface
	Lister listers.PipelineRunLister
}

// Cached answers from the informer; only "gone" is confirmed by a live GET,
// since a cache may lag behind the creation of both run and lease.
func (c *Checker) Cached(ctx context.Context, lease *v1alpha1.ClusterLease) (plan.Holder, error) {
	ref := lease.Spec.HolderRef
	if ref == nil {
		return plan.HolderNone, nil
	}
	run, err := c.Lister.PipelineRuns(lease.Namespace).Get(ref.Name)
	if err == nil {
		if state := stateOf(run, ref); state != plan.HolderGone {
			return state, nil
		}
	}
	return c.Live(ctx, lease)
}

// Live answers by a GET; it is asked just before a claim.
func (c *Checker) Live(ctx context.Context, lease *v1alpha1.ClusterLease) (plan.Holder, error) {
	ref := lease.Spec.HolderRef
	if ref == nil {
		return plan.HolderNone, nil
	}
	run, err := c.Client.TektonV1().PipelineRuns(lease.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return plan.HolderGone, nil
	}
	// A cluster without Tekton's CRDs answers 404 too: that says nothing of the run.
	if err != nil {
		return plan.HolderNone, fmt.Errorf("get holder %s/%s: %w", lease.Namespace, ref.Name, err)
	}
	return stateOf(run, ref), nil
}

func stateOf(run *pipelinev1.PipelineRun, ref *v1alpha1.HolderReference) plan.Holder {
	switch {
	case run.UID != ref.UID || run.DeletionTimestamp != nil:
		return plan.HolderGone
	case run.IsDone():
		return plan.HolderDone
	default:
		return plan.HolderRunning
	}
}

// TrimInformer makes the shared PipelineRun informer keep only metadata,
// conditions and child references. Call it before the informers start.
func TrimInformer(ctx context.Context) error {
	if err := pipelineruninformer.Get(ctx).Informer().SetTransform(trim); err != nil {
		return fmt.Errorf("trim PipelineRun informer: %w", err)
	}
	return nil
}

func trim(obj any) (any, error) {
	run, ok := obj.(*pipelinev1.PipelineRun)
	if !ok {
		return obj, nil
	}
	kept := &pipelinev1.PipelineRun{TypeMeta: run.TypeMeta, ObjectMeta: run.ObjectMeta}
	kept.ManagedFields = nil
	kept.Annotations = nil
	kept.Spec.Status = run.Spec.Status
	kept.Status.Status = run.Status.Status
	kept.Status.StartTime, kept.Status.CompletionTime = run.Status.StartTime, run.Status.CompletionTime
	kept.Status.ChildReferences = run.Status.ChildReferences
	return kept, nil
}
