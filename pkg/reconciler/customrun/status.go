package customrun

import (
	"github.com/tektoncd/pipeline/pkg/apis/pipeline/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
)

// note is what status.extraFields of a CustomRun holds.
type note struct {
	// Lease and LeaseUID name the lease that decides this attempt.
	Lease    string    `json:"lease"`
	LeaseUID types.UID `json:"leaseUID"`
	// Renewed: an earlier one vanished while it was waited for.
	Renewed bool `json:"renewed,omitempty"`
}

// mark puts what a step comes to into a status.
func mark(s *v1beta1.CustomRunStatus, seen plan.CustomRunFacts, next plan.CustomRunPlan, now metav1.Time) error {
	switch next.Step {
	case plan.CustomRunStart:
		start(s, now, "")
	case plan.CustomRunFollow:
		return s.EncodeExtraFields(note{Lease: seen.Lease.Name, LeaseUID: seen.Lease.UID, Renewed: next.Renewed})
	case plan.CustomRunWait:
		set(s, corev1.ConditionUnknown, next.Reason, next.Message, now)
	case plan.CustomRunSucceed, plan.CustomRunRelease:
		for _, r := range next.Results {
			s.Results = append(s.Results, v1beta1.CustomRunResult{Name: r.Name, Value: r.Value})
		}
		end(s, corev1.ConditionTrue, next, now)
	case plan.CustomRunRetry:
		retry(s, next, now)
	default:
		end(s, corev1.ConditionFalse, next, now)
	}
	return nil
}

func start(s *v1beta1.CustomRunStatus, now metav1.Time, message string) {
	s.StartTime = &now
	set(s, corev1.ConditionUnknown, v1alpha1.ReasonCustomRunStarted, message, now)
}

func end(s *v1beta1.CustomRunStatus, status corev1.ConditionStatus, next plan.CustomRunPlan, now metav1.Time) {
	if s.StartTime == nil {
		s.StartTime = &now
	}
	s.CompletionTime = &now
	set(s, status, next.Reason, next.Message, now)
}

// retry puts the attempt that failed aside, as the contract of CustomRuns asks:
// Succeeded is False only when no attempt is left.
func retry(s *v1beta1.CustomRunStatus, next plan.CustomRunPlan, now metav1.Time) {
	past := *s.DeepCopy()
	past.RetriesStatus = nil
	end(&past, corev1.ConditionFalse, next, now)
	s.RetriesStatus = append(s.RetriesStatus, past)
	s.StartTime, s.CompletionTime, s.Results = nil, nil, nil
	s.ExtraFields.Raw = nil
	start(s, now, "trying again: "+next.Message)
}

// set replaces condition Succeeded and leaves others alone.
func set(s *v1beta1.CustomRunStatus, status corev1.ConditionStatus, reason v1alpha1.Reason, message string, now metav1.Time) {
	next := apis.Condition{
		Type: apis.ConditionSucceeded, Status: status, Reason: string(reason),
		Message: message, LastTransitionTime: apis.VolatileTime{Inner: now},
	}
	kept := duckv1.Conditions{next}
	for _, c := range s.Conditions {
		switch {
		case c.Type != apis.ConditionSucceeded:
			kept = append(kept, c)
		case c.Status == status:
			kept[0].LastTransitionTime = c.LastTransitionTime
		}
	}
	s.Conditions = kept
}
