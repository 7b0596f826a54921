package follow

import (
	"context"
	"fmt"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	tekton "github.com/tektoncd/pipeline/pkg/client/clientset/versioned"
	listers "github.com/tektoncd/pipeline/pkg/client/listers/pipeline/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
	"opdev.io/guestcluster/pkg/runs"
)

var states = map[runs.Phase]plan.RunState{
	runs.Queued: plan.RunQueued, runs.Running: plan.RunRunning, runs.Succeeded: plan.RunSucceeded,
	runs.Failed: plan.RunFailed, runs.TimedOut: plan.RunTimedOut, runs.Cancelled: plan.RunCancelled,
}

// Finder finds recorded runs in one namespace.
type Finder struct {
	Client    tekton.Interface
	Lister    listers.PipelineRunNamespaceLister
	Namespace string
}

// Recorded returns the run that a status names, trimmed as the informer has it,
// or nil when a live GET shows that it is gone or that another has its name.
func (f Finder) Recorded(ctx context.Context, want *v1alpha1.RunStatus) (*pipelinev1.PipelineRun, error) {
	if run, err := f.Lister.Get(want.Name); err == nil && run.UID == want.UID {
		return run, nil
	}
	return f.Live(ctx, want)
}

// Live is Recorded by a GET alone: it has the results, which the informer does not keep.
func (f Finder) Live(ctx context.Context, want *v1alpha1.RunStatus) (*pipelinev1.PipelineRun, error) {
	run, err := f.Client.TektonV1().PipelineRuns(f.Namespace).Get(ctx, want.Name, metav1.GetOptions{})
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

// Stand adds to the facts where a run stands, and which pod was taken from it
// when that is why it failed. The TaskRuns of a failed one are for its diagnosis.
func (f Finder) Stand(ctx context.Context, run *pipelinev1.PipelineRun, facts *plan.RunFacts) ([]*pipelinev1.TaskRun, error) {
	facts.State = states[runs.Outcome(run).Phase]
	if facts.State != plan.RunFailed && facts.State != plan.RunTimedOut {
		return nil, nil
	}
	taskRuns, err := f.taskRuns(ctx, run)
	if err != nil || facts.State == plan.RunTimedOut {
		return taskRuns, err
	}
	if facts.Lost = runs.LostPod(run, taskRuns); facts.Lost != "" {
		facts.State = plan.RunInterrupted
	}
	return taskRuns, nil
}

// taskRuns reads those of the run's TaskRuns that still exist.
func (f Finder) taskRuns(ctx context.Context, run *pipelinev1.PipelineRun) ([]*pipelinev1.TaskRun, error) {
	var list []*pipelinev1.TaskRun
	for _, name := range runs.Outcome(run).TaskRuns {
		taskRun, err := f.Client.TektonV1().TaskRuns(run.Namespace).Get(ctx, name, metav1.GetOptions{})
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
