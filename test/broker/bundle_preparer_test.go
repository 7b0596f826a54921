package broker_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/runs"
	"opdev.io/guestcluster/test/internal/broker"
)

var (
	checksum  = strings.Repeat("0a", 32)
	buildTime = "2026-01-02T03:04:05Z"
)

// prepareAct is what happens to one prepare-bundle run.
type prepareAct struct {
	// Wait before anything happens, until it is closed.
	Wait chan struct{}
	// Fail: a step ends with ExitCode and says Message.
	Fail     bool
	ExitCode int32
	Message  string
	// Cancel, Delete: somebody does that. DeleteSealed: after its work is done.
	Cancel, Delete, DeleteSealed bool
	// Seal replaces the checksum that the volume is sealed with.
	Seal string
	// Pod: one mounts the volume when the run ends.
	Pod bool
}

// preparer plays Tekton and the steps for the runs of one version.
type preparer struct {
	name, version string
	script        prepareScript

	mu   sync.Mutex
	seen map[types.UID]bool
}

func startPreparer(t testing.TB, name, version string, script prepareScript) {
	t.Helper()
	if script == nil {
		script = func(string) prepareAct { return prepareAct{} }
	}
	p := &preparer{name: name, version: version, script: script, seen: map[types.UID]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	client := shared.Tekton.TektonV1().PipelineRuns(guestcluster.BundleNamespace)
	go broker.Follow(ctx, client.List, client.Watch, func(object runtime.Object, gone bool) {
		if run, ok := object.(*pipelinev1.PipelineRun); ok && !gone && versionOf(run) == version {
			p.begin(ctx, t, run)
		}
	})
}

func versionOf(run *pipelinev1.PipelineRun) string { return paramOf(run, runs.ParamVersion) }

func paramOf(run *pipelinev1.PipelineRun, name string) string {
	for _, p := range run.Spec.Params {
		if p.Name == name {
			return p.Value.StringVal
		}
	}
	return ""
}

func schemaParse(text string) (schema.GroupVersionResource, schema.GroupResource) {
	gvr, gr := schema.ParseResourceArg(text)
	return *gvr, gr
}

func (p *preparer) begin(ctx context.Context, t testing.TB, run *pipelinev1.PipelineRun) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen[run.UID] {
		return
	}
	p.seen[run.UID] = true
	act := p.script(run.Labels[guestcluster.AttemptLabel])
	go func() {
		// A bundle may be deleted while its run is played.
		if err := p.play(ctx, run, act); err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			t.Logf("stand-in for Tekton, run %s: %v", run.Name, err)
		}
	}()
}

func (p *preparer) play(ctx context.Context, run *pipelinev1.PipelineRun, act prepareAct) error {
	client := shared.Tekton.TektonV1().PipelineRuns(run.Namespace)
	if act.Wait != nil {
		if err := setRun(ctx, run, corev1.ConditionUnknown, pipelinev1.PipelineRunReasonRunning.String(), "running", nil); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-act.Wait:
		}
	}
	switch {
	case act.Delete:
		return client.Delete(ctx, run.Name, metav1.DeleteOptions{})
	case act.Cancel:
		return setRun(ctx, run, corev1.ConditionFalse, pipelinev1.PipelineRunReasonCancelled.String(), "was cancelled", nil)
	case act.Fail:
		return failPreparation(ctx, run, act)
	}
	volume, err := p.leave(ctx, run, act)
	if err != nil {
		return err
	}
	if act.DeleteSealed {
		return client.Delete(ctx, run.Name, metav1.DeleteOptions{})
	}
	return setRun(ctx, run, corev1.ConditionTrue, pipelinev1.PipelineRunReasonSuccessful.String(), "done", func(s *pipelinev1.PipelineRunStatus) {
		for name, value := range map[string]string{
			runs.ResultGoldenVolume: p.name, runs.ResultGoldenVolumeUID: string(volume), runs.ResultSSHKeySecret: v1alpha1.BootKeySecretName(p.name),
			runs.ResultOCPVersion: p.version, runs.ResultSHA256: checksum, runs.ResultBuildTime: buildTime,
		} {
			s.Results = append(s.Results, pipelinev1.PipelineRunResult{Name: name, Value: *pipelinev1.NewStructuredValues(value)})
		}
	})
}

// leave makes what the steps leave behind: the volume, sealed, and the key.
func (p *preparer) leave(ctx context.Context, run *pipelinev1.PipelineRun, act prepareAct) (types.UID, error) {
	seal := act.Seal
	if seal == "" {
		seal = checksum
	}
	object := func(name string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Name: name, Labels: map[string]string{guestcluster.BundleLabel: p.name}, Annotations: map[string]string{
			guestcluster.PrepareRunAnnotation: string(run.UID), guestcluster.BundleSHA256Annotation: seal,
			guestcluster.OCPVersionAnnotation: p.version, guestcluster.BuildTimeAnnotation: buildTime}}
		if uid := paramOf(run, runs.ParamBundleUID); uid != "" {
			b := &v1alpha1.CRCBundle{ObjectMeta: metav1.ObjectMeta{Name: p.name, UID: types.UID(uid)}}
			m.OwnerReferences = []metav1.OwnerReference{b.Owner()}
		}
		return m
	}
	core := shared.Kube.CoreV1()
	volume := &corev1.PersistentVolumeClaim{ObjectMeta: object(p.name), Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("31Gi")}}}}
	volume, err := core.PersistentVolumeClaims(run.Namespace).Create(ctx, volume, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	key := &corev1.Secret{ObjectMeta: object(v1alpha1.BootKeySecretName(p.name)), Data: map[string][]byte{guestcluster.BootKeyKey: []byte("key")}}
	if _, err := core.Secrets(run.Namespace).Create(ctx, key, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	if act.Pod {
		_, err = core.Pods(run.Namespace).Create(ctx, podThatMounts(p.name, p.name), metav1.CreateOptions{})
	}
	return volume.UID, err
}

func failPreparation(ctx context.Context, run *pipelinev1.PipelineRun, act prepareAct) error {
	yes, now := true, metav1.Now()
	taskRuns := shared.Tekton.TektonV1().TaskRuns(run.Namespace)
	taskRun, err := taskRuns.Create(ctx, &pipelinev1.TaskRun{
		ObjectMeta: metav1.ObjectMeta{Name: run.Name + "-fetch", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "tekton.dev/v1", Kind: "PipelineRun", Name: run.Name, UID: run.UID, Controller: &yes, BlockOwnerDeletion: &yes}}},
		Spec: pipelinev1.TaskRunSpec{TaskRef: &pipelinev1.TaskRef{Name: "fetch"}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	taskRun.Status.CompletionTime = &now
	taskRun.Status.Conditions = duckv1.Conditions{{Type: apis.ConditionSucceeded, Status: corev1.ConditionFalse, Reason: "Failed", Message: `"step-fetch" exited`}}
	taskRun.Status.Steps = []pipelinev1.StepState{{Name: "fetch", ContainerState: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: act.ExitCode, Reason: "Error", StartedAt: now, FinishedAt: now.Rfc3339Copy()}}}}
	taskRun.Status.Results = []pipelinev1.TaskRunResult{{Name: runs.ResultFailure, Type: pipelinev1.ResultsTypeString, Value: *pipelinev1.NewStructuredValues(act.Message)}}
	if _, err := taskRuns.UpdateStatus(ctx, taskRun, metav1.UpdateOptions{}); err != nil {
		return err
	}
	return setRun(ctx, run, corev1.ConditionFalse, pipelinev1.PipelineRunReasonFailed.String(), "Tasks Completed: 1 (Failed: 1)", func(s *pipelinev1.PipelineRunStatus) {
		s.ChildReferences = []pipelinev1.ChildStatusReference{{
			TypeMeta: runtime.TypeMeta{APIVersion: "tekton.dev/v1", Kind: "TaskRun"}, Name: taskRun.Name, PipelineTaskName: "fetch-bundle"}}
	})
}

func setRun(ctx context.Context, run *pipelinev1.PipelineRun, status corev1.ConditionStatus, reason, message string, more func(*pipelinev1.PipelineRunStatus)) error {
	client := shared.Tekton.TektonV1().PipelineRuns(run.Namespace)
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		live, err := client.Get(ctx, run.Name, metav1.GetOptions{})
		if err != nil || live.UID != run.UID {
			return err
		}
		broker.SetRun(live, status, reason, message)
		if more != nil {
			more(&live.Status)
		}
		_, err = client.UpdateStatus(ctx, live, metav1.UpdateOptions{})
		return err
	})
}

// gate is a run that waits until it is opened.
func gate(t testing.TB) (chan struct{}, func()) {
	t.Helper()
	opened := make(chan struct{})
	var once sync.Once
	open := func() { once.Do(func() { close(opened) }) }
	t.Cleanup(open)
	return opened, open
}

// sincePause is how long a state that must not change is looked at.
const sincePause = 500 * time.Millisecond
