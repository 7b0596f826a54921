package plan

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/lessee"
)

// CustomRunFacts is what the next step of a CustomRun is decided from.
type CustomRunFacts struct {
	// UID of the CustomRun.
	UID types.UID
	// Order is what it asks for; a release has only the holder in it.
	Order lessee.Order
	// Release: it is a ClusterRelease and not a ClusterLease.
	Release bool
	// Wrong is why what it asks for cannot be done.
	Wrong *lessee.Problem
	// Cancelled: spec.status says so; CancelMessage says why, if it does.
	Cancelled     bool
	CancelMessage string
	// Deleted: it has a deletionTimestamp.
	Deleted bool
	// Protected: our finalizer is on it.
	Protected bool
	// Timeout of one attempt; zero for none.
	Timeout time.Duration
	// RetriesLeft is how many attempts may follow this one.
	RetriesLeft int

	// Started is when this attempt started; zero when it has not.
	Started time.Time
	// Done and Succeeded: how condition Succeeded stands.
	Done, Succeeded bool
	// Waits is what condition Succeeded says the attempt waits for.
	Waits Waiting
	// Followed is the lease whose fate is this attempt's result; Renewed says
	// that a followed one vanished once and was made anew.
	Followed types.UID
	Renewed  bool

	// Lease of the holder's name; nil when there is none.
	Lease *v1alpha1.ClusterLease
}

// Waiting is a reason to wait and what to do about it.
type Waiting struct {
	Reason  v1alpha1.Reason
	Message string
}

// text is empty while nothing was waited for.
func (w Waiting) text() string {
	if w.Reason == "" || w.Reason == v1alpha1.ReasonCustomRunStarted {
		return ""
	}
	return fmt.Sprintf("%s: %s", w.Reason, w.Message)
}

// CustomRunStep is what to do with a CustomRun next.
type CustomRunStep int

const (
	// CustomRunKeep: nothing to do before an event or LookAgain.
	CustomRunKeep CustomRunStep = iota
	// CustomRunStart: say that the attempt has started.
	CustomRunStart
	// CustomRunProtect: put our finalizer on, before the lease exists.
	CustomRunProtect
	// CustomRunCreate: make the ordered lease.
	CustomRunCreate
	// CustomRunFollow: note which lease decides this attempt, and Renewed.
	CustomRunFollow
	// CustomRunReplace: delete the lease, which failed before this attempt, by its UID.
	CustomRunReplace
	// CustomRunWait: say what is waited for.
	CustomRunWait
	// CustomRunRelease: set the lease's spec.release, then succeed.
	CustomRunRelease
	// CustomRunSucceed: end well, with Results.
	CustomRunSucceed
	// CustomRunFail: end, with Reason and Message.
	CustomRunFail
	// CustomRunRetry: put this attempt aside and start the next one.
	CustomRunRetry
	// CustomRunRemoveLease: delete the lease, which still waits, if it is as it was seen.
	CustomRunRemoveLease
	// CustomRunGiveBack: set spec.release of the bound lease that nobody was told of.
	CustomRunGiveBack
	// CustomRunForget: take our finalizer off.
	CustomRunForget
)

// CustomRunPlan is the next step of a CustomRun.
type CustomRunPlan struct {
	Step    CustomRunStep
	Reason  v1alpha1.Reason
	Message string
	Results []lessee.Result
	Renewed bool
	// LookAgain is when time alone changes the plan; zero means never.
	LookAgain time.Duration
}

// CustomRun decides the next step of a CustomRun. The outcome is written before
// the lease is taken back, and the finalizer goes last: a crash loses neither.
//
//	done or deleted           | take the lease back, then the finalizer off
//	cancelled                 | fail as cancelled
//	asks for the impossible   | fail at once
//	not started               | start
//	release                   | release, or nothing to release; succeed
//	acquire                   | see acquire
func CustomRun(f CustomRunFacts, now time.Time) CustomRunPlan {
	switch {
	case f.Done || f.Deleted:
		return f.cleanUp()
	case f.Cancelled:
		return outcome(v1alpha1.ReasonCustomRunCancelled, f.cancelText())
	case f.Wrong != nil:
		return outcome(f.Wrong.Reason, f.Wrong.Text)
	case f.Started.IsZero():
		return CustomRunPlan{Step: CustomRunStart}
	case f.Release:
		return f.release()
	}
	p := f.acquire()
	over := f.Timeout > 0 && !now.Before(f.Started.Add(f.Timeout))
	if over && p.Step != CustomRunSucceed && p.Step != CustomRunFail {
		return f.fail(&lessee.Problem{Class: lessee.Timeout, Reason: v1alpha1.ReasonCustomRunTimedOut, Text: f.timeoutText()})
	}
	if f.Timeout > 0 {
		p.LookAgain = f.Started.Add(f.Timeout).Sub(now)
	}
	return p
}

// acquire:
//
//	no finalizer                   | put it on
//	no lease                       | make it; once more when a followed one vanished, then fail
//	another holder's or pool's     | fail
//	going away                     | wait until it is gone
//	failed before this attempt     | replace it
//	not followed                   | follow it
//	followed                       | as lessee.Judge says
func (f CustomRunFacts) acquire() CustomRunPlan {
	l := f.Lease
	if !f.Protected {
		return CustomRunPlan{Step: CustomRunProtect}
	}
	if l == nil {
		if f.Followed != "" && f.Renewed {
			return f.fail(f.Order.Holder.Deleted())
		}
		return CustomRunPlan{Step: CustomRunCreate}
	}
	if problem := f.Order.Conflict(l); problem != nil {
		return f.fail(problem)
	}
	switch {
	case l.DeletionTimestamp != nil:
		return f.wait(Waiting{v1alpha1.ReasonLeaseDeleted, fmt.Sprintf("lease %s is being deleted; waiting until it is gone", l.Name)})
	case l.UID == f.Followed:
		return f.judge()
	case lessee.NeverBound(l):
		return CustomRunPlan{Step: CustomRunReplace}
	}
	return CustomRunPlan{Step: CustomRunFollow, Renewed: f.Renewed || f.Followed != ""}
}

func (f CustomRunFacts) judge() CustomRunPlan {
	l := f.Lease
	verdict := lessee.Judge(l, f.Waits.text())
	reason := l.Status.BoundReason()
	switch {
	case verdict.Problem != nil:
		return f.fail(verdict.Problem)
	case verdict.Bound:
		return CustomRunPlan{Step: CustomRunSucceed, Reason: v1alpha1.ReasonCustomRunSucceeded, Message: l.Status.BoundMessage(), Results: lessee.Results(l)}
	case reason == "" || reason == v1alpha1.ReasonClaiming: // it ends in a moment: not worth a write
		return CustomRunPlan{}
	}
	return f.wait(Waiting{reason, l.Status.BoundMessage()})
}

func (f CustomRunFacts) wait(what Waiting) CustomRunPlan {
	if f.Waits == what {
		return CustomRunPlan{}
	}
	return CustomRunPlan{Step: CustomRunWait, Reason: what.Reason, Message: what.Message}
}

func (f CustomRunFacts) release() CustomRunPlan {
	todo := f.Order.Holder.Release(f.Lease)
	p := CustomRunPlan{Step: CustomRunSucceed, Reason: v1alpha1.ReasonCustomRunSucceeded, Message: todo.Text}
	switch {
	case todo.Problem != nil:
		return f.fail(todo.Problem)
	case todo.Release:
		p.Step = CustomRunRelease
	}
	return p
}

// Refused is the plan when the API server refuses the lease that is ordered.
func (f CustomRunFacts) Refused(err error) CustomRunPlan {
	return f.fail(&lessee.Problem{Class: lessee.User, Reason: v1alpha1.ReasonLeaseRefused, Text: err.Error()})
}

// fail ends the attempt. Another one follows only where it can help: what
// only the author of the run can mend stays as it is.
func (f CustomRunFacts) fail(problem *lessee.Problem) CustomRunPlan {
	p := outcome(problem.Reason, problem.Text)
	if problem.Class != lessee.User && f.RetriesLeft > 0 {
		p.Step = CustomRunRetry
	}
	return p
}

func outcome(reason v1alpha1.Reason, message string) CustomRunPlan {
	return CustomRunPlan{Step: CustomRunFail, Reason: reason, Message: message}
}

// cleanUp takes back what nobody was told of. Only the CustomRun that made a
// lease does: others of its run may wait for it too. Deletion leaves a bound
// lease to its holder's end and its ttl, as that of a TaskRun does.
func (f CustomRunFacts) cleanUp() CustomRunPlan {
	l := f.Lease
	switch {
	case !f.Protected:
		return CustomRunPlan{}
	case f.Succeeded || l == nil || l.Annotations[guestcluster.CustomRunAnnotation] != string(f.UID):
	case l.DeletionTimestamp != nil || l.Spec.Release || l.Ending():
	case lessee.Pending(l):
		return CustomRunPlan{Step: CustomRunRemoveLease}
	case f.Done:
		return CustomRunPlan{Step: CustomRunGiveBack}
	}
	return CustomRunPlan{Step: CustomRunForget}
}

func (f CustomRunFacts) cancelText() string {
	text := f.CancelMessage
	if text == "" {
		text = "the CustomRun was cancelled"
	}
	return text + f.waitedText()
}

func (f CustomRunFacts) timeoutText() string {
	return fmt.Sprintf("the CustomRun did not end within its timeout of %s", f.Timeout) + f.waitedText()
}

func (f CustomRunFacts) waitedText() string {
	if waited := f.Waits.text(); waited != "" {
		return fmt.Sprintf("; lease %s waited for: %s", f.Order.Holder.LeaseName(), waited)
	}
	return ""
}
