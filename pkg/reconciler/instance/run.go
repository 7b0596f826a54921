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
	"opdev.io/guestcluster/pkg/reconciler/follow"
	"opdev.io/guestcluster/pkg/runs"
)

func (r *Reconciler) startRun(ctx context.Context, i *v1alpha1.ClusterInstance, want *pipelinev1.PipelineRun, attempt int32) error {
	run, err := ensure(ctx, r.tekton.TektonV1().PipelineRuns(i.Namespace), i, "PipelineRun", want.Name, ifFresh(ctx, r, i, want))
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
	run, err := r.finder(i).Recorded(ctx, i.Status.Run)
	if err != nil {
		return 0, err
	}
	facts, taskRuns, err := r.runFacts(ctx, i, run)
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
		r.failRun(i, run, taskRuns, next)
		return 0, nil
	}
	i.MarkProvisioning(next.Reason, next.Message)
	return next.After, r.repairSometimes(ctx, i)
}

func (r *Reconciler) runFacts(ctx context.Context, i *v1alpha1.ClusterInstance, run *pipelinev1.PipelineRun) (plan.RunFacts, []*pipelinev1.TaskRun, error) {
	status := i.Status.Run
	facts := plan.RunFacts{Name: status.Name, Attempt: status.Attempt, Timeout: runs.Timeout(i.Spec.Provisioning), StartedAt: r.clock.Now()}
	if status.StartedAt != nil {
		facts.StartedAt = status.StartedAt.Time
	}
	if run != nil {
		taskRuns, err := r.finder(i).Stand(ctx, run, &facts)
		return facts, taskRuns, err
	}
	secret, err := r.readHandoff(ctx, i)
	facts.HandedOff = err == nil && handoffProblem(i, secret) == ""
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return facts, nil, err
}

func (r *Reconciler) finder(i *v1alpha1.ClusterInstance) follow.Finder {
	return follow.Finder{Client: r.tekton, Lister: r.runs.PipelineRuns(i.Namespace), Namespace: i.Namespace}
}

func (r *Reconciler) failRun(i *v1alpha1.ClusterInstance, run *pipelinev1.PipelineRun, taskRuns []*pipelinev1.TaskRun, next plan.RunPlan) {
	failure := v1alpha1.FailureStatus{Run: i.Status.Run.Name, Message: next.Message}
	if run != nil && next.Message == "" {
		failure = runs.Failure(run, taskRuns)
	}
	r.markFailed(i, next.Reason, failure)
}

func (r *Reconciler) markFailed(i *v1alpha1.ClusterInstance, reason v1alpha1.Reason, failure v1alpha1.FailureStatus) {
	failure.Reason, failure.Time = string(reason), metav1.NewTime(r.clock.Now())
	i.MarkFailed(failure)
}
