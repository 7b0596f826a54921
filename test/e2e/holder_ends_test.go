//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/lessee"
	"opdev.io/guestcluster/test/rigtest"
)

// endsPool serves the runs of everyWayARunEnds, some at a time: each guest is
// a control plane and they share two processors.
const endsPool = "e2e-ends"

// ending is one way in which a PipelineRun ends.
type ending struct {
	// timeouts of the run; none needs to allow for the wait for a cluster.
	timeouts string
	// step is what task use does, at most for as long as timeout says.
	step, timeout string
	// finally is the Task or CustomRun that would release; empty for none.
	finally string
	// act ends the run once task use is there; nil where it ends by itself.
	act func(t *testing.T, run *pipelinev1.PipelineRun)
	// reasons that the lease may end with; none where it goes with its namespace.
	reasons []v1alpha1.Reason
}

const (
	byTask      = `[{name: release, taskRef: {name: release-cluster}}]`
	byCustomRun = `[{name: release, taskRef: {apiVersion: guestcluster.opdev.io/v1alpha1, kind: ClusterRelease}}]`
	long        = `{pipeline: 10m, tasks: 8m, finally: 2m}`
)

// endings are all ways in which a run ends; most skip finally.
// Public reports: tektoncd/pipeline#8982, #6794, #2989, #5849, #4458, #4071, #2381, #8031.
func endings() map[string]ending {
	done := []v1alpha1.Reason{v1alpha1.ReasonHolderDone}
	released := []v1alpha1.Reason{v1alpha1.ReasonReleased}
	return map[string]ending{
		"finished":         {step: pass, reasons: done},
		"failed":           {step: fail, reasons: done},
		"task timeout":     {step: hang, timeout: "5s", reasons: done},
		"pipeline timeout": {step: hang, timeout: "12s", timeouts: `{pipeline: 12s}`, finally: byCustomRun, reasons: done},
		"tasks timeout":    {step: hang, timeout: "10s", timeouts: `{pipeline: 10m, tasks: 10s}`, reasons: done},
		"Cancelled":        {step: hang, finally: byCustomRun, act: setStatus(pipelinev1.PipelineRunSpecStatusCancelled), reasons: done},
		"CancelledRunFinally": {step: hang, finally: byCustomRun,
			act: setStatus(pipelinev1.PipelineRunSpecStatusCancelledRunFinally), reasons: released},
		"StoppedRunFinally": {step: hang, timeout: "15s", finally: byCustomRun,
			act: setStatus(pipelinev1.PipelineRunSpecStatusStoppedRunFinally), reasons: released},
		"deleted": {step: hang, finally: byCustomRun, act: deleteRun,
			reasons: []v1alpha1.Reason{v1alpha1.ReasonHolderGone, v1alpha1.ReasonHolderDone}},
		"namespace deleted":               {step: hang, act: deleteNamespace},
		"release Task removed in mid-run": {step: hang, finally: byTask, act: removeReleaseTask, reasons: done},
		"the quota refuses the pod of finally": {step: hang, timeout: "5s", timeouts: `{pipeline: 10m, tasks: 8m, finally: 8s}`, finally: byTask,
			act: forbidPods, reasons: done},
	}
}

// everyWayARunEnds: the cluster is destroyed within a minute of each.
func everyWayARunEnds(t *testing.T) {
	t.Parallel()
	pool := strings.NewReplacer("name: "+poolName, "name: "+endsPool, "warmSpares: 1", "warmSpares: 0",
		"maxSize: 4", "maxSize: 6", "maxConcurrent: 2", "maxConcurrent: 4").Replace(poolYAML)
	if err := rig.ApplyText(t.Context(), "", pool); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rig.Guest.GuestclusterV1alpha1().ClusterPools(poolNamespace).Delete(context.Background(), endsPool, metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete pool %s: %v", endsPool, err)
		}
	})
	shared := ciNamespace(t)
	var cases sync.WaitGroup
	for name, end := range endings() {
		ns := shared
		if end.finally == byTask || end.reasons == nil {
			ns = ciNamespace(t) // its Task, quota or the namespace itself changes
		}
		// Not t.Parallel: that would run as many at a time as there are processors.
		cases.Go(func() { t.Run(name, func(t *testing.T) { end.check(t, ns, name) }) })
	}
	cases.Wait()
}

func (e ending) check(t *testing.T, ns, name string) {
	name = strings.ToLower(strings.ReplaceAll(name, " ", "-"))
	run, lease := heldRun(t, ns, name, e.yaml(name))
	defer func() {
		if t.Failed() {
			live, err := rig.Tekton.TektonV1().PipelineRuns(ns).Get(context.Background(), run.Name, metav1.GetOptions{})
			t.Logf("run: %v %+v; leases: %s", err, live.Status.Conditions, leaseTexts(context.Background(), ns))
		}
	}()
	if e.act != nil {
		waitRunFor(t, run, "task use to start", 2*time.Minute, func(r *pipelinev1.PipelineRun) bool { return childOf(r, "use") != "" })
		e.act(t, run)
	}
	waitRunFor(t, run, "the run's end", 2*time.Minute, (*pipelinev1.PipelineRun).IsDone)
	ref := *lease.Status.InstanceRef
	if e.reasons != nil {
		checkReason(t, waitNamedLease(t, ns, lease.Name, "a released lease", func(l *v1alpha1.ClusterLease) bool { return l.Status.Phase == v1alpha1.LeaseReleased }), e.reasons)
	}
	waitDestroyedWithin(t, ref, time.Minute)
	waitSecretGone(t, ns, lease.AccessSecretName())
}

func (e ending) yaml(name string) string {
	timeouts, timeout, finally := e.timeouts, e.timeout, e.finally
	if timeouts == "" {
		timeouts = long
	}
	if timeout == "" {
		timeout = "8m"
	}
	if finally == "" {
		finally = "[]"
	}
	return fmt.Sprintf(`
apiVersion: tekton.dev/v1
kind: PipelineRun
metadata: {name: %s}
spec:
  status: PipelineRunPending
  timeouts: %s
  taskRunTemplate: {serviceAccountName: pipeline}
  pipelineSpec:
    tasks:
    - name: acquire
      taskRef: {apiVersion: guestcluster.opdev.io/v1alpha1, kind: ClusterLease}
      params:
      - {name: pool, value: %s}
      - {name: pool-namespace, value: %s}
    - name: use
      runAfter: [acquire]
      timeout: %s
      taskSpec:
        steps:
        - name: use
          image: %s
          command: [/usr/local/bin/kubectl]
          args: %s
          computeResources: {requests: {cpu: 10m, memory: 32Mi}, limits: {cpu: 200m, memory: 128Mi}}
          securityContext:
            runAsNonRoot: true
            allowPrivilegeEscalation: false
            capabilities: {drop: [ALL]}
            seccompProfile: {type: RuntimeDefault}
    - {name: after, runAfter: [use], taskRef: {apiVersion: guestcluster.opdev.io/v1alpha1, kind: ClusterRelease}, params: [{name: slot, value: other}]}
    finally: %s
`, name, timeouts, endsPool, poolNamespace, timeout, rigtest.PlaceholderImage, e.step, finally)
}

// heldRun makes a pending run and its lease, as acquire does, and starts the
// run when the lease is bound: so its timeouts need not allow for the wait.
func heldRun(t *testing.T, ns, name, yaml string) (*pipelinev1.PipelineRun, *v1alpha1.ClusterLease) {
	t.Helper()
	run := runPipeline(t, ns, name, yaml)
	order := lessee.Order{
		Holder: lessee.Holder{Namespace: ns, PipelineRun: run.Name, PipelineRunUID: string(run.UID)},
		Pool:   endsPool, PoolNamespace: poolNamespace, AcquireTimeout: 5 * time.Minute,
	}
	lease, err := rig.Guest.GuestclusterV1alpha1().ClusterLeases(ns).Create(t.Context(), order.Lease(), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	lease = waitNamedLease(t, ns, lease.Name, "a bound lease", func(l *v1alpha1.ClusterLease) bool { return l.Status.Phase == v1alpha1.LeaseBound })
	setStatus("")(t, run)
	return run, lease
}

func childOf(run *pipelinev1.PipelineRun, task string) string {
	for _, c := range run.Status.ChildReferences {
		if c.PipelineTaskName == task {
			return c.Name
		}
	}
	return ""
}

// waitRunFor waits for a state of a run; one that is gone is in every state.
func waitRunFor(t *testing.T, run *pipelinev1.PipelineRun, what string, limit time.Duration, want func(*pipelinev1.PipelineRun) bool) {
	t.Helper()
	err := rigtest.Wait(t.Context(), what, limit, func(ctx context.Context) (bool, string, error) {
		live, err := rig.Tekton.TektonV1().PipelineRuns(run.Namespace).Get(ctx, run.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, "", nil
		}
		if err != nil {
			return false, "", err
		}
		return want(live), fmt.Sprintf("%+v", live.Status.Conditions), nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func waitNamedLease(t *testing.T, ns, name, what string, want func(*v1alpha1.ClusterLease) bool) *v1alpha1.ClusterLease {
	t.Helper()
	var lease *v1alpha1.ClusterLease
	err := rigtest.Wait(t.Context(), what, 10*time.Minute, func(ctx context.Context) (bool, string, error) {
		var err error
		if lease, err = rig.Guest.GuestclusterV1alpha1().ClusterLeases(ns).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return false, "", err
		}
		return want(lease), fmt.Sprintf("%s: %s: %s", lease.Status.Phase, lease.Status.BoundReason(), lease.Status.BoundMessage()), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// setStatus cancels, stops or starts a run.
func setStatus(status pipelinev1.PipelineRunSpecStatus) func(*testing.T, *pipelinev1.PipelineRun) {
	return func(t *testing.T, run *pipelinev1.PipelineRun) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"spec":{"status":%q}}`, status)
		if _, err := rig.Tekton.TektonV1().PipelineRuns(run.Namespace).Patch(t.Context(), run.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func deleteRun(t *testing.T, run *pipelinev1.PipelineRun) {
	background := metav1.DeletePropagationBackground
	if err := rig.Tekton.TektonV1().PipelineRuns(run.Namespace).Delete(t.Context(), run.Name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
}

func deleteNamespace(t *testing.T, run *pipelinev1.PipelineRun) {
	if err := rig.Kube.CoreV1().Namespaces().Delete(t.Context(), run.Namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// removeReleaseTask makes the run fail at its next look: Tekton resolves the
// Tasks of finally again as long as they have not started.
func removeReleaseTask(t *testing.T, run *pipelinev1.PipelineRun) {
	if err := rig.Tekton.TektonV1().Tasks(run.Namespace).Delete(t.Context(), "release-cluster", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := []byte(`{"metadata":{"annotations":{"guestcluster.test/look":"again"}}}`)
	if _, err := rig.Tekton.TektonV1().PipelineRuns(run.Namespace).Patch(t.Context(), run.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func forbidPods(t *testing.T, run *pipelinev1.PipelineRun) {
	quota := `{apiVersion: v1, kind: ResourceQuota, metadata: {name: none}, spec: {hard: {pods: "0"}}}`
	if err := rig.ApplyText(t.Context(), run.Namespace, quota); err != nil {
		t.Fatal(err)
	}
}
