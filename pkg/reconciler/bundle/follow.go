package bundle

import (
	"context"
	"time"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
	"opdev.io/guestcluster/pkg/reconciler/follow"
	"opdev.io/guestcluster/pkg/runs"
)

// follow reads the run and does what follows from it.
func (r *Reconciler) follow(ctx context.Context, b *v1alpha1.CRCBundle) (time.Duration, error) {
	run, err := r.finder().Recorded(ctx, b.Status.Run)
	if err != nil {
		return 0, err
	}
	facts, taskRuns, err := r.runFacts(ctx, b, run)
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
		r.failRun(b, run, taskRuns, next)
		return 0, nil
	}
	if next.Reason == v1alpha1.ReasonRunRunning {
		next.Reason = v1alpha1.ReasonBundlePreparing
	}
	b.MarkWaiting(next.Reason, next.Message)
	return next.After, nil
}

func (r *Reconciler) runFacts(ctx context.Context, b *v1alpha1.CRCBundle, run *pipelinev1.PipelineRun) (plan.RunFacts, []*pipelinev1.TaskRun, error) {
	status := b.Status.Run
	facts := plan.RunFacts{Name: status.Name, Attempt: status.Attempt, Timeout: runs.BundleTimeout, StartedAt: r.clock.Now()}
	if status.StartedAt != nil {
		facts.StartedAt = status.StartedAt.Time
	}
	if run != nil {
		taskRuns, err := r.finder().Stand(ctx, run, &facts)
		return facts, taskRuns, err
	}
	volume, _, err := r.volume(ctx, b)
	facts.HandedOff = volume.SealedBy(status.UID)
	return facts, nil, err
}

func (r *Reconciler) finder() follow.Finder {
	return follow.Finder{Client: r.tekton, Lister: r.runs, Namespace: guestcluster.BundleNamespace}
}

func (r *Reconciler) failRun(b *v1alpha1.CRCBundle, run *pipelinev1.PipelineRun, taskRuns []*pipelinev1.TaskRun, next plan.RunPlan) {
	failure := v1alpha1.FailureStatus{Run: b.Status.Run.Name, Message: next.Message}
	if run != nil && next.Message == "" {
		failure = runs.BundleFailure(run, taskRuns)
	}
	r.fail(b, next.Reason, failure)
}

func (r *Reconciler) fail(b *v1alpha1.CRCBundle, reason v1alpha1.Reason, failure v1alpha1.FailureStatus) {
	failure.Reason, failure.Time = string(reason), metav1.NewTime(r.clock.Now())
	b.MarkFailed(failure, plan.FailureText(&failure))
}
