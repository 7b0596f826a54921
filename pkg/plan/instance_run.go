package plan

import (
	"fmt"
	"time"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

const (
	maxAttempts      = 3
	runGrace         = 2 * time.Minute
	keepSucceededRun = 10 * time.Minute
	keepFailedRun    = time.Hour
)

// RunState is where the run of the current attempt stands.
type RunState int

const (
	// RunMissing means that a live GET found no run with the recorded UID.
	RunMissing RunState = iota
	// RunQueued means that Tekton did not start it.
	RunQueued
	// RunRunning means that it has not ended.
	RunRunning
	// RunSucceeded means that it left its results.
	RunSucceeded
	// RunFailed means that a task failed.
	RunFailed
	// RunTimedOut means that its own timeout ended it.
	RunTimedOut
	// RunCancelled means that somebody else ended it.
	RunCancelled
	// RunInterrupted means that it failed because a pod was taken from it.
	RunInterrupted
)

// RunFacts is what is known of an instance's provisioning run.
type RunFacts struct {
	Name    string
	State   RunState
	Attempt int32
	// Lost says which pod was taken from an interrupted run.
	Lost string
	// HandedOff: the kubeconfig Secret was filled by this very run.
	HandedOff bool
	// StartedAt is when the first attempt began, Timeout what all may take.
	StartedAt time.Time
	Timeout   time.Duration
}

// RunStep is what to do about a run.
type RunStep int

const (
	// RunWait for the run, with the plan's reason.
	RunWait RunStep = iota
	// RunAccept its kubeconfig.
	RunAccept
	// RunRetry with the next attempt.
	RunRetry
	// RunFail the instance, with the plan's reason.
	RunFail
)

// RunPlan says what to do next; a wait ends at the latest After from now.
type RunPlan struct {
	Step    RunStep
	Reason  v1alpha1.Reason
	Message string
	After   time.Duration
}

// Run decides what follows from the state of the run.
//
//	succeeded, or missing after it handed off   accept
//	missing, cancelled or interrupted           retry; fail after 3 attempts or out of time
//	failed, timed out                           fail
//	queued, running                             wait; fail when out of time
func Run(f RunFacts, now time.Time) RunPlan {
	left := f.StartedAt.Add(f.Timeout + runGrace).Sub(now)
	switch f.State {
	case RunSucceeded:
		return RunPlan{Step: RunAccept}
	case RunMissing, RunCancelled, RunInterrupted:
		return lostRun(f, left)
	case RunFailed:
		return RunPlan{Step: RunFail, Reason: v1alpha1.ReasonRunFailed}
	case RunTimedOut:
		return RunPlan{Step: RunFail, Reason: v1alpha1.ReasonProvisioningTimeout}
	}
	if left <= 0 {
		return RunPlan{Step: RunFail, Reason: v1alpha1.ReasonProvisioningTimeout,
			Message: fmt.Sprintf("PipelineRun %s did not end within %s: is Tekton up?", f.Name, f.Timeout)}
	}
	if f.State == RunQueued {
		return RunPlan{Reason: v1alpha1.ReasonRunQueued, After: left, Message: fmt.Sprintf("PipelineRun %s waits for Tekton", f.Name)}
	}
	return RunPlan{Reason: v1alpha1.ReasonRunRunning, After: left, Message: fmt.Sprintf("PipelineRun %s is running", f.Name)}
}

func lostRun(f RunFacts, left time.Duration) RunPlan {
	what, look := "vanished", "look for who deletes or cancels runs"
	switch f.State {
	case RunCancelled:
		what = "was cancelled by somebody else"
	case RunInterrupted:
		what, look = f.Lost, "look at the node, and for who deletes or evicts pods"
	}
	switch {
	case f.State == RunMissing && f.HandedOff:
		return RunPlan{Step: RunAccept}
	case f.Attempt+1 >= maxAttempts:
		return RunPlan{Step: RunFail, Reason: v1alpha1.ReasonRunLost,
			Message: fmt.Sprintf("PipelineRun %s %s, and the %d before it were lost as well: %s", f.Name, what, f.Attempt, look)}
	case left <= runGrace:
		return RunPlan{Step: RunFail, Reason: v1alpha1.ReasonProvisioningTimeout,
			Message: fmt.Sprintf("PipelineRun %s %s and no time is left for another attempt", f.Name, what)}
	}
	return RunPlan{Step: RunRetry, Reason: v1alpha1.ReasonPreparing,
		Message: fmt.Sprintf("PipelineRun %s %s: starting attempt %d", f.Name, what, f.Attempt+1)}
}

// TimeLeft is the timeout of a run that starts now: all attempts share one.
func TimeLeft(startedAt, now time.Time, timeout time.Duration) time.Duration {
	if startedAt.IsZero() {
		return timeout
	}
	return max(startedAt.Add(timeout).Sub(now), time.Minute)
}

// KeepRun says whether the run of an ended provisioning stays readable, and
// for how long still: ten minutes after Ready, an hour after a failure.
func KeepRun(i *v1alpha1.ClusterInstance, now time.Time) (bool, time.Duration) {
	var until time.Time
	switch {
	case i.Status.Failure != nil:
		until = i.Status.Failure.Time.Add(keepFailedRun)
	case i.Status.ReadyTime != nil:
		until = i.Status.ReadyTime.Add(keepSucceededRun)
	default:
		return true, 0
	}
	return now.Before(until), until.Sub(now)
}
