package runs

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/redact"
)

func ended(status corev1.ConditionStatus, reason, message string) duckv1.Status {
	return duckv1.Status{Conditions: duckv1.Conditions{{Type: apis.ConditionSucceeded, Status: status, Reason: reason, Message: message}}}
}

func TestOutcome(t *testing.T) {
	rows := map[string]struct {
		status duckv1.Status
		want   Phase
	}{
		"no condition is queued":       {duckv1.Status{}, Queued},
		"pending is queued":            {ended(corev1.ConditionUnknown, "PipelineRunPending", ""), Queued},
		"started is running":           {ended(corev1.ConditionUnknown, "Started", ""), Running},
		"stopping is running":          {ended(corev1.ConditionUnknown, "PipelineRunStopping", ""), Running},
		"finally of a cancelled run":   {ended(corev1.ConditionUnknown, "CancelledRunningFinally", ""), Running},
		"succeeded":                    {ended(corev1.ConditionTrue, "Succeeded", ""), Succeeded},
		"completed with skipped tasks": {ended(corev1.ConditionTrue, "Completed", ""), Succeeded},
		"failed":                       {ended(corev1.ConditionFalse, "Failed", ""), Failed},
		"an invalid run has failed":    {ended(corev1.ConditionFalse, "PipelineValidationFailed", ""), Failed},
		"timed out":                    {ended(corev1.ConditionFalse, "PipelineRunTimeout", ""), TimedOut},
		"cancelled":                    {ended(corev1.ConditionFalse, "Cancelled", ""), Cancelled},
		"cancelled, finally has ended": {ended(corev1.ConditionFalse, "CancelledRunningFinally", ""), Cancelled},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			got := Outcome(&pipelinev1.PipelineRun{Status: pipelinev1.PipelineRunStatus{Status: row.status}})
			if got.Phase != row.want {
				t.Errorf("got %s, want %s", got.Phase, row.want)
			}
		})
	}
}

func failedTaskRun(name string, at int64, code int32, results ...pipelinev1.TaskRunResult) *pipelinev1.TaskRun {
	end := metav1.NewTime(time.Unix(at, 0))
	exit := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
	}
	t := &pipelinev1.TaskRun{ObjectMeta: metav1.ObjectMeta{Name: name}}
	t.Status.Status = ended(corev1.ConditionFalse, "Failed", `"step-boot" exited with code 11`)
	t.Status.CompletionTime, t.Status.Results = &end, results
	t.Status.Steps = []pipelinev1.StepState{
		{Name: "ok", ContainerState: exit(0)}, {Name: "boot", ContainerState: exit(code)},
		{Name: "after", ContainerState: exit(1), TerminationReason: "Skipped"},
	}
	return t
}

func TestFailureNamesTheFirstFailedStep(t *testing.T) {
	run := &pipelinev1.PipelineRun{ObjectMeta: metav1.ObjectMeta{Name: "run"}}
	run.Status.Status = ended(corev1.ConditionFalse, "Failed", "Tasks Completed: 2 (Failed: 2)")
	run.Status.ChildReferences = []pipelinev1.ChildStatusReference{
		{TypeMeta: runtime.TypeMeta{Kind: "TaskRun"}, Name: "run-gather", PipelineTaskName: "gather"},
		{TypeMeta: runtime.TypeMeta{Kind: "TaskRun"}, Name: "run-boot", PipelineTaskName: "boot-vm"},
	}
	said := pipelinev1.TaskRunResult{Name: ResultFailure, Value: *pipelinev1.NewStructuredValues("no host has room; token=abcdefghijk")}
	got := Failure(run, []*pipelinev1.TaskRun{failedTaskRun("run-gather", 20, 1), failedTaskRun("run-boot", 10, 11, said)})
	want := v1alpha1.FailureStatus{Run: "run", Task: "boot-vm", Step: "boot", ExitCode: 11,
		Message: "the infrastructure failed: no host has room; token=[redacted]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFailureWithoutTaskRunsHasTheRunsMessage(t *testing.T) {
	run := &pipelinev1.PipelineRun{ObjectMeta: metav1.ObjectMeta{Name: "run"}}
	run.Status.Status = ended(corev1.ConditionFalse, "ParameterMissing", "no such param")
	if got := Failure(run, nil); got.Message != "no such param" || got.Run != "run" {
		t.Errorf("got %+v", got)
	}
}

func TestRedact(t *testing.T) {
	secret := "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"
	rows := map[string]struct{ text, secret string }{
		"a PEM block":            {"x -----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY----- y", "MIIB"},
		"a cut PEM block":        {"x -----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl", "b3Bl"},
		"a bearer token":         {"Authorization: Bearer abc.def-ghi", "abc.def"},
		"an OpenShift token":     {"login with sha256~ab-cd_ef failed", "ab-cd"},
		"a JSON web token":       {"got eyJhbGciOi.eyJzdWIi.c2ln now", "c2ln"},
		"a password":             {`kubeadmin-password: "aB3-xY"`, "aB3"},
		"a password in a URL":    {"GET https://user:hunter2@host/", "hunter2"},
		"a long run of base64":   {"data " + secret, secret},
		"key data of kubeconfig": {"client-key-data: LS0tLS1", "LS0tLS1"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			if got := Redact(row.text); strings.Contains(got, row.secret) || !strings.Contains(got, redact.Mark) {
				t.Errorf("got %q", got)
			}
		})
	}
	plain := `PipelineRun gc-a-rather-long-pool-name-12-0123456789-provision-0 failed: "step-boot" exited with code 11`
	if got := Redact(plain); got != plain {
		t.Errorf("harmless text became %q", got)
	}
}
