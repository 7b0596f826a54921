package customrun

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tektoncd/pipeline/pkg/apis/pipeline/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
	"opdev.io/guestcluster/pkg/runs"
)

// TestReasonsAreTektons: Tekton reads these two.
func TestReasonsAreTektons(t *testing.T) {
	for ours, theirs := range map[v1alpha1.Reason]v1beta1.CustomRunReason{
		v1alpha1.ReasonCustomRunCancelled: v1beta1.CustomRunReasonCancelled,
		v1alpha1.ReasonCustomRunTimedOut:  v1beta1.CustomRunReasonTimedOut,
		v1alpha1.ReasonCustomRunStarted:   v1beta1.CustomRunReasonStarted,
		v1alpha1.ReasonCustomRunSucceeded: v1beta1.CustomRunReasonSuccessful,
	} {
		if string(ours) != theirs.String() {
			t.Errorf("%s is %s in Tekton", ours, theirs)
		}
	}
}

func TestRetryPutsTheAttemptAside(t *testing.T) {
	first, second := metav1.NewTime(time.Unix(1000, 0)), metav1.NewTime(time.Unix(2000, 0))
	s := &v1beta1.CustomRunStatus{}
	foreign := apis.Condition{Type: "Theirs", Status: corev1.ConditionTrue}
	s.Conditions = duckv1.Conditions{foreign}
	start(s, first, "")
	if err := s.EncodeExtraFields(note{Lease: "run", LeaseUID: "u"}); err != nil {
		t.Fatal(err)
	}
	if err := mark(s, plan.CustomRunFacts{}, plan.CustomRunPlan{Step: plan.CustomRunRetry, Reason: v1alpha1.ReasonCustomRunTimedOut, Message: "over"}, second); err != nil {
		t.Fatal(err)
	}
	now := s.GetCondition(apis.ConditionSucceeded)
	if len(s.RetriesStatus) != 1 || !now.IsUnknown() || now.Message != "trying again: over" || !s.StartTime.Equal(&second) || s.CompletionTime != nil || s.ExtraFields.Raw != nil {
		t.Fatalf("%+v", s)
	}
	past := s.RetriesStatus[0]
	then := past.GetCondition(apis.ConditionSucceeded)
	if !then.IsFalse() || then.Reason != "CustomRunTimedOut" || !past.StartTime.Equal(&first) || !past.CompletionTime.Equal(&second) || past.RetriesStatus != nil {
		t.Errorf("%+v", past)
	}
	if diff := cmp.Diff(&foreign, s.GetCondition("Theirs")); diff != "" {
		t.Error(diff)
	}
}

// TestTrimKeepsOnlyWhoseAForeignOneIs: a busy cluster may have many.
func TestTrimKeepsOnlyWhoseAForeignOneIs(t *testing.T) {
	run := func(kind string) *v1beta1.CustomRun {
		r := &v1beta1.CustomRun{ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: "a", Labels: map[string]string{"a": "b"}, ManagedFields: []metav1.ManagedFieldsEntry{{}}}}
		r.Spec.CustomRef = &v1beta1.TaskRef{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1beta1.TaskKind(kind)}
		return r
	}
	kept, err := trim(run(runs.KindAcquire))
	if r := kept.(*v1beta1.CustomRun); err != nil || r.ManagedFields != nil || r.Labels == nil || !ours(r) {
		t.Errorf("ours: %+v, %v", kept, err)
	}
	kept, err = trim(run("Other"))
	if diff := cmp.Diff(&v1beta1.CustomRun{ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: "a"}}, kept); err != nil || diff != "" {
		t.Error(err, diff)
	}
}
