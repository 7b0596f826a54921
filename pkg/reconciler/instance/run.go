package instance

import (
	"context"
	"fmt"
	"time"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
	"opdev.io/guestcluster/pkg/runs"
)

var runStates = map[runs.Phase]plan.RunState{
	runs.Queued: plan.RunQueued, runs.Running: plan.RunRunning, runs.Succeeded: plan.RunSucceeded,
	runs.Failed: plan.RunFailed, runs.TimedOut: plan.RunTimedOut, runs.Cancelled: plan.RunCancelled,
}

func (r *Reconciler) startRun(ctx context.Context, i *v1alpha1.ClusterInstance, want *pipelinev1.PipelineRun, attempt int32) error {
	run, err := ensure(ctx, r.tekton.TektonV1().PipelineRuns(i.Namespace), i, "PipelineRun", want.Name, always(want))
	if err != nil {
		return err
	}
	startedAt := &run.CreationTimestamp
	if last := i.Status.Run; last != nil && last.StartedAt != nil {
		startedAt = last.StartedAt
	}
	i.MarkRun(v1alpha1.RunStatus{Name: run.Name, UID: run.UID, Attempt: attempt, StartedAt: startedAt})
	i.MarkProvisioning(v1alpha1.ReasonRunQueued, fmt.Sprintf("PipelineRun %s waits for Tekton", run.Name))
	return nil
}

// follow reads the run and does what follows from it.
func (r *Reconciler) follow(ctx context.Context, i *v1alpha1.ClusterInstance) (time.Duration, error) {
	run, err := r.findRun(ctx, i)
	if err != nil {
		return 0, err
	}
	facts, err := r.runFacts(ctx, i, run)
	if err != nil {
		return 0, err
	}
	next := plan.Run(facts, r.clock.Now())
	switch next.Step {
	case plan.RunAccept:
		return 0, r.accept(ctx, i)
	case plan.RunRetry:
		attempt := i.Status.Run.Attempt + 1
		i.MarkRun(v1alpha1.RunStatus{Name: i.RunName(attempt), Attempt: attempt, StartedAt: i.Status.Run.StartedAt})
		i.MarkProvisioning(next.Reason, next.Message)
		return 0, nil
	case plan.RunFail:
		return 0, r.failRun(ctx, i, run, next)
	}
	i.MarkProvisioning(next.Reason, next.Message)
	return next.After, r.repairSometimes(ctx, i)
}

func (r *Reconciler) runFacts(ctx context.Context, i *v1alpha1.ClusterInstance, run *pipelinev1.PipelineRun) (plan.RunFacts, error) {
	status := i.Status.Run
	facts := plan.RunFacts{Name: status.Name, Attempt: status.Attempt, Timeout: runs.Timeout(i.Spec.Provisioning), StartedAt: r.clock.Now()}
	if status.StartedAt != nil {
		facts.StartedAt = status.StartedAt.Time
	}
	if run != nil {
		facts.State = runStates[runs.Outcome(run).Phase]
		return facts, nil
	}
	secret, err := r.readHandoff(ctx, i)
	facts.HandedOff = err == nil && handoffProblem(i, secret) == ""
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return facts, err
}

// findRun returns the recorded run, or nil when a live GET shows that it is gone.
func (r *Reconciler) findRun(ctx context.Context, i *v1alpha1.ClusterInstance) (*pipelinev1.PipelineRun, error) {
	want := i.Status.Run
	run, err := r.runs.PipelineRuns(i.Namespace).Get(want.Name)
	if err == nil && run.UID == want.UID {
		return run, nil
	}
	run, err = r.tekton.TektonV1().PipelineRuns(i.Namespace).Get(ctx, want.Name, metav1.GetOptions{})
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

func (r *Reconciler) failRun(ctx context.Context, i *v1alpha1.ClusterInstance, run *pipelinev1.PipelineRun, next plan.RunPlan) error {
	failure := v1alpha1.FailureStatus{Run: i.Status.Run.Name}
	if run != nil && next.Message == "" {
		taskRuns, err := r.taskRuns(ctx, run)
		if err != nil {
			return err
		}
		failure = runs.Failure(run, taskRuns)
	} else {
		failure.Message = next.Message
	}
	r.markFailed(i, next.Reason, failure)
	return nil
}

func (r *Reconciler) markFailed(i *v1alpha1.ClusterInstance, reason v1alpha1.Reason, failure v1alpha1.FailureStatus) {
	failure.Reason, failure.Time = string(reason), metav1.NewTime(r.clock.Now())
	i.MarkFailed(failure)
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
