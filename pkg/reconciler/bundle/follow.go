package bundle

import (
	"context"
	"fmt"
	"time"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
	"opdev.io/guestcluster/pkg/runs"
)

var runStates = map[runs.Phase]plan.RunState{
	runs.Queued: plan.RunQueued, runs.Running: plan.RunRunning, runs.Succeeded: plan.RunSucceeded,
	runs.Failed: plan.RunFailed, runs.TimedOut: plan.RunTimedOut, runs.Cancelled: plan.RunCancelled,
}

// follow reads the run and does what follows from it.
func (r *Reconciler) follow(ctx context.Context, b *v1alpha1.CRCBundle) (time.Duration, error) {
	run, err := r.findRun(ctx, b)
	if err != nil {
		return 0, err
	}
	facts, err := r.runFacts(ctx, b, run)
	if err != nil {
		return 0, err
	}
	next := plan.Run(facts, r.clock.Now())
	switch next.Step {
	case plan.RunAccept:
		return r.accept(ctx, b)
	case plan.RunRetry:
		attempt := b.Status.Run.Attempt + 1
		b.MarkRun(v1alpha1.RunStatus{Name: b.RunName(attempt), Attempt: attempt, StartedAt: b.Status.Run.StartedAt})
		b.MarkWaiting(v1alpha1.ReasonBundlePreparing, next.Message)
		return 0, nil
	case plan.RunFail:
		return 0, r.failRun(ctx, b, run, next)
	}
	if next.Reason == v1alpha1.ReasonRunRunning {
		next.Reason = v1alpha1.ReasonBundlePreparing
	}
	b.MarkWaiting(next.Reason, next.Message)
	return next.After, nil
}

func (r *Reconciler) runFacts(ctx context.Context, b *v1alpha1.CRCBundle, run *pipelinev1.PipelineRun) (plan.RunFacts, error) {
	status := b.Status.Run
	facts := plan.RunFacts{Name: status.Name, Attempt: status.Attempt, Timeout: runs.BundleTimeout, StartedAt: r.clock.Now()}
	if status.StartedAt != nil {
		facts.StartedAt = status.StartedAt.Time
	}
	if run != nil {
		facts.State = runStates[runs.Outcome(run).Phase]
		return facts, nil
	}
	volume, _, err := r.volume(ctx, b)
	facts.HandedOff = volume.SealedBy(status.UID)
	return facts, err
}

// findRun returns the recorded run, or nil when a live GET shows that it is gone.
func (r *Reconciler) findRun(ctx context.Context, b *v1alpha1.CRCBundle) (*pipelinev1.PipelineRun, error) {
	want := b.Status.Run
	if run, err := r.runs.Get(want.Name); err == nil && run.UID == want.UID {
		return run, nil
	}
	return r.liveRun(ctx, b)
}

// liveRun has the results too, which the informer does not keep.
func (r *Reconciler) liveRun(ctx context.Context, b *v1alpha1.CRCBundle) (*pipelinev1.PipelineRun, error) {
	want := b.Status.Run
	run, err := r.tekton.TektonV1().PipelineRuns(guestcluster.BundleNamespace).Get(ctx, want.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read PipelineRun %s: %w", want.Name, err)
	case run.UID != want.UID:
		return nil, nil
	}
	return run, nil
}

func (r *Reconciler) failRun(ctx context.Context, b *v1alpha1.CRCBundle, run *pipelinev1.PipelineRun, next plan.RunPlan) error {
	failure := v1alpha1.FailureStatus{Run: b.Status.Run.Name, Message: next.Message}
	if run != nil && next.Message == "" {
		taskRuns, err := r.taskRuns(ctx, run)
		if err != nil {
			return err
		}
		failure = runs.BundleFailure(run, taskRuns)
	}
	r.fail(b, next.Reason, failure)
	return nil
}

func (r *Reconciler) fail(b *v1alpha1.CRCBundle, reason v1alpha1.Reason, failure v1alpha1.FailureStatus) {
	failure.Reason, failure.Time = string(reason), metav1.NewTime(r.clock.Now())
	b.MarkFailed(failure, plan.FailureText(&failure))
}

// taskRuns reads those of the run's TaskRuns that still exist.
func (r *Reconciler) taskRuns(ctx context.Context, run *pipelinev1.PipelineRun) ([]*pipelinev1.TaskRun, error) {
	var list []*pipelinev1.TaskRun
	for _, name := range runs.Outcome(run).TaskRuns {
		taskRun, err := r.tekton.TektonV1().TaskRuns(run.Namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("read TaskRun %s: %w", name, err)
		default:
			list = append(list, taskRun)
		}
	}
	return list, nil
}
