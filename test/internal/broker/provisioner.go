package broker

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/runs"
	"opdev.io/guestcluster/test/internal/server"
)

// Act is what happens to one provisioning run.
type Act struct {
	// Delay before anything happens.
	Delay time.Duration
	// Hang: the run stays running.
	Hang bool
	// Fail: a step of task boot ends with ExitCode and says Message.
	Fail     bool
	ExitCode int32
	Message  string
	// Cancel: somebody cancels the run. Delete: somebody deletes it.
	Cancel, Delete bool
	// TimeOut: Tekton ends the run by its own timeout.
	TimeOut bool
	// ForRun replaces the run UID that the kubeconfig Secret names.
	ForRun string
	// NoSecret: the run succeeds and leaves nothing.
	NoSecret bool
	// Endpoint replaces the assigned one in the kubeconfig.
	Endpoint string
	// VMIUID replaces the UID of the machine that runs (crc).
	VMIUID string
	// Gathered is the ConfigMap that a failing run names (crc).
	Gathered string
}

// Password is that of every kubeadmin.
const Password = Canary + "password"

// Provisioner plays Tekton and the provisioning steps for one namespace.
type Provisioner struct {
	server    *server.Server
	guests    *Guests
	namespace string
	script    func(instance, attempt string) Act

	mu   sync.Mutex
	seen map[types.UID]bool
}

// StartProvisioner plays every run of instances in the namespace; script may be
// nil: all runs succeed. It stops with the test.
func StartProvisioner(t testing.TB, s *server.Server, guests *Guests, namespace string, script func(instance, attempt string) Act) {
	t.Helper()
	if script == nil {
		script = func(string, string) Act { return Act{} }
	}
	p := &Provisioner{server: s, guests: guests, namespace: namespace, script: script, seen: map[types.UID]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	runs := s.Tekton.TektonV1().PipelineRuns(namespace)
	go Follow(ctx, runs.List, runs.Watch, func(object runtime.Object, gone bool) {
		if run, ok := object.(*pipelinev1.PipelineRun); ok && !gone {
			p.start(ctx, t, run)
		}
	})
}

func (p *Provisioner) start(ctx context.Context, t testing.TB, run *pipelinev1.PipelineRun) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := run.Labels[guestcluster.InstanceLabel]
	if name == "" || p.seen[run.UID] {
		return
	}
	p.seen[run.UID] = true
	act := p.script(name, run.Labels[guestcluster.AttemptLabel])
	go func() {
		err := p.play(ctx, run, act)
		// An instance may be destroyed while its run is played.
		if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			t.Logf("stand-in for Tekton, run %s: %v", run.Name, err)
		}
	}()
}

func (p *Provisioner) play(ctx context.Context, run *pipelinev1.PipelineRun, act Act) error {
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(act.Delay):
	}
	switch {
	case act.Hang:
		return p.set(ctx, run, corev1.ConditionUnknown, pipelinev1.PipelineRunReasonRunning.String(), "running", nil)
	case act.Delete:
		return p.server.Tekton.TektonV1().PipelineRuns(run.Namespace).Delete(ctx, run.Name, metav1.DeleteOptions{})
	case act.Cancel:
		return p.set(ctx, run, corev1.ConditionFalse, pipelinev1.PipelineRunReasonCancelled.String(), "was cancelled", nil)
	case act.TimeOut:
		return p.set(ctx, run, corev1.ConditionFalse, pipelinev1.PipelineRunReasonTimedOut.String(), "failed to finish within its timeout", nil)
	case act.Fail:
		return p.fail(ctx, run, act)
	}
	endpoint := "https://" + param(run, runs.ParamAPIHost)
	if !act.NoSecret {
		if err := p.publish(ctx, run, act, endpoint); err != nil {
			return err
		}
	}
	return p.set(ctx, run, corev1.ConditionTrue, pipelinev1.PipelineRunReasonSuccessful.String(), "done", func(s *pipelinev1.PipelineRunStatus) {
		s.Results = []pipelinev1.PipelineRunResult{
			{Name: runs.ResultAPIEndpoint, Value: *pipelinev1.NewStructuredValues(endpoint)},
			{Name: runs.ResultOCPVersion, Value: *pipelinev1.NewStructuredValues(Version)},
		}
	})
}

func (p *Provisioner) publish(ctx context.Context, run *pipelinev1.PipelineRun, act Act, endpoint string) error {
	uid := string(run.UID)
	if act.ForRun != "" {
		uid = act.ForRun
	}
	if act.Endpoint != "" {
		endpoint = act.Endpoint
	}
	more, err := p.machineKeys(ctx, run, act)
	if err != nil {
		return err
	}
	secrets := p.server.Kube.CoreV1().Secrets(run.Namespace)
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		secret, err := secrets.Get(ctx, param(run, runs.ParamKubeconfigSecret), metav1.GetOptions{})
		if err != nil {
			return err
		}
		secret.Data = map[string][]byte{
			guestcluster.KubeconfigKey: p.guests.Kubeconfig(endpoint),
			guestcluster.OCPVersionKey: []byte(Version), guestcluster.RunUIDKey: []byte(uid),
			guestcluster.KubeadminPasswordKey: []byte(Password),
		}
		maps.Copy(secret.Data, more)
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
		return err
	})
}

func (p *Provisioner) fail(ctx context.Context, run *pipelinev1.PipelineRun, act Act) error {
	isController := true
	taskRun := &pipelinev1.TaskRun{
		ObjectMeta: metav1.ObjectMeta{
			Name: run.Name + "-boot", Namespace: run.Namespace,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "tekton.dev/v1", Kind: "PipelineRun", Name: run.Name, UID: run.UID, Controller: &isController}},
		},
		Spec: pipelinev1.TaskRunSpec{TaskRef: &pipelinev1.TaskRef{Name: "boot"}},
	}
	taskRuns := p.server.Tekton.TektonV1().TaskRuns(run.Namespace)
	taskRun, err := taskRuns.Create(ctx, taskRun, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	now := metav1.Now()
	taskRun.Status.CompletionTime = &now
	taskRun.Status.Conditions = duckv1.Conditions{{Type: apis.ConditionSucceeded, Status: corev1.ConditionFalse, Reason: "Failed", Message: `"step-boot" exited`}}
	taskRun.Status.Steps = []pipelinev1.StepState{{Name: "boot", ContainerState: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: act.ExitCode, Reason: "Error"}}}}
	taskRun.Status.Results = []pipelinev1.TaskRunResult{{Name: runs.ResultFailure, Type: pipelinev1.ResultsTypeString, Value: *pipelinev1.NewStructuredValues(act.Message)}}
	if _, err := taskRuns.UpdateStatus(ctx, taskRun, metav1.UpdateOptions{}); err != nil {
		return err
	}
	gathered, err := p.gather(ctx, run, act)
	if err != nil {
		return err
	}
	return p.set(ctx, run, corev1.ConditionFalse, pipelinev1.PipelineRunReasonFailed.String(), "Tasks Completed: 1 (Failed: 1)", func(s *pipelinev1.PipelineRunStatus) {
		s.ChildReferences = []pipelinev1.ChildStatusReference{{
			TypeMeta: runtime.TypeMeta{APIVersion: "tekton.dev/v1", Kind: "TaskRun"}, Name: taskRun.Name, PipelineTaskName: "boot"}}
		s.ChildReferences = append(s.ChildReferences, gathered...)
	})
}

func (p *Provisioner) set(ctx context.Context, run *pipelinev1.PipelineRun, status corev1.ConditionStatus, reason, message string, more func(*pipelinev1.PipelineRunStatus)) error {
	client := p.server.Tekton.TektonV1().PipelineRuns(run.Namespace)
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		live, err := client.Get(ctx, run.Name, metav1.GetOptions{})
		if err != nil || live.UID != run.UID {
			return err
		}
		SetRun(live, status, reason, message)
		if more != nil {
			more(&live.Status)
		}
		_, err = client.UpdateStatus(ctx, live, metav1.UpdateOptions{})
		return err
	})
}

// SetRun writes condition Succeeded as Tekton does.
func SetRun(run *pipelinev1.PipelineRun, status corev1.ConditionStatus, reason, message string) {
	now := metav1.Now()
	run.Status.StartTime = &now
	if status != corev1.ConditionUnknown {
		run.Status.CompletionTime = &now
	}
	run.Status.Conditions = duckv1.Conditions{{
		Type: apis.ConditionSucceeded, Status: status, Reason: reason, Message: message,
		LastTransitionTime: apis.VolatileTime{Inner: now},
	}}
}

func param(run *pipelinev1.PipelineRun, name string) string {
	for _, p := range run.Spec.Params {
		if p.Name == name {
			return p.Value.StringVal
		}
	}
	return ""
}
