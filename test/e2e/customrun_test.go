//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tektoncd/pipeline/pkg/apis/pipeline/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/test/rigtest"
)

// pipelineTestsWithoutAPodForAcquire: the example runs as it is shipped, and
// with a ServiceAccount that may do nothing with leases.
func pipelineTestsWithoutAPodForAcquire(t *testing.T) {
	t.Parallel()
	ns := ciNamespace(t)
	if err := rig.Kube.RbacV1().RoleBindings(ns).Delete(t.Context(), "guestcluster-lessee", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	run := runPipeline(t, ns, "test-without-a-pod-1", example(t, "without-a-pod.yaml", ns))
	lease := waitLease(t, ns, "a bound lease", func(l *v1alpha1.ClusterLease) bool { return l.Status.BoundTime != nil })
	if lease.Spec.HolderRef == nil || lease.Spec.HolderRef.UID != run.UID {
		t.Errorf("holder is %+v, want the PipelineRun %s", lease.Spec.HolderRef, run.UID)
	}
	if done := waitRun(t, ns, run.Name); !done.IsSuccessful() {
		t.Fatalf("run failed: %+v", done.Status.Conditions)
	}
	released := waitLease(t, ns, "a released lease", func(l *v1alpha1.ClusterLease) bool { return l.Status.Phase == v1alpha1.LeaseReleased })
	checkReason(t, released, []v1alpha1.Reason{v1alpha1.ReasonReleased})
	pods, err := rig.Kube.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "tekton.dev/pipelineTask in (acquire, release)"})
	if err != nil || len(pods.Items) > 0 {
		t.Errorf("%d pods of acquire and release, %v", len(pods.Items), err)
	}
	waitDestroyed(t, *lease.Status.InstanceRef)
}

// cancelledRunGivesItsWaitingLeaseUp: Tekton cancels the CustomRun, and only its
// controller can end it: else the PipelineRun would wait for ever.
func cancelledRunGivesItsWaitingLeaseUp(t *testing.T) {
	t.Parallel()
	ns := ciNamespace(t)
	run := runPipeline(t, ns, "waits", fmt.Sprintf(`
apiVersion: tekton.dev/v1
kind: PipelineRun
metadata:
  name: waits
spec:
  timeouts: {pipeline: 10m}
  pipelineSpec:
    tasks:
    - name: acquire
      taskRef: {apiVersion: guestcluster.opdev.io/v1alpha1, kind: ClusterLease}
      params:
      - {name: pool, value: %s}
      - {name: pool-namespace, value: %s}
      - {name: acquire-timeout, value: 9m}
    finally:
    - name: release
      taskRef: {apiVersion: guestcluster.opdev.io/v1alpha1, kind: ClusterRelease}
`, fullPool(t), poolNamespace))
	waitLease(t, ns, "a lease that waits", func(l *v1alpha1.ClusterLease) bool { return l.Status.BoundReason() != "" })
	if _, err := rig.Tekton.TektonV1().PipelineRuns(ns).Patch(t.Context(), run.Name, types.MergePatchType,
		[]byte(`{"spec":{"status":"CancelledRunFinally"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	waitRun(t, ns, run.Name)
	acquire := customRunOf(t, ns, "acquire")
	if c := acquire.Status.GetCondition(apis.ConditionSucceeded); !c.IsFalse() || c.Reason != v1beta1.CustomRunReasonCancelled.String() {
		t.Errorf("acquire ended with %+v", c)
	}
	if release := customRunOf(t, ns, "release"); !release.IsSuccessful() {
		t.Errorf("release ended with %+v", release.Status.Conditions)
	}
	err := rigtest.Wait(t.Context(), "removal of the lease", time.Minute, func(ctx context.Context) (bool, string, error) {
		leases, err := rig.Guest.GuestclusterV1alpha1().ClusterLeases(ns).List(ctx, metav1.ListOptions{})
		return err == nil && len(leases.Items) == 0, leaseTexts(ctx, ns), err
	})
	if err != nil {
		t.Error(err)
	}
}

// fullPool is a paused pool without instances: its leases wait.
func fullPool(t *testing.T) string {
	t.Helper()
	const name = "e2e-full"
	yaml := strings.Replace(strings.Replace(poolYAML, "name: "+poolName, "name: "+name, 1), "  type: custom\n", "  type: custom\n  paused: true\n", 1)
	if err := rig.ApplyText(t.Context(), "", yaml); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rig.Guest.GuestclusterV1alpha1().ClusterPools(poolNamespace).Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete pool %s: %v", name, err)
		}
	})
	return name
}

func customRunOf(t *testing.T, ns, task string) *v1beta1.CustomRun {
	t.Helper()
	found, err := rig.Tekton.TektonV1beta1().CustomRuns(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "tekton.dev/pipelineTask=" + task})
	if err != nil || len(found.Items) != 1 {
		t.Fatalf("%d CustomRuns of %s, %v", len(found.Items), task, err)
	}
	return &found.Items[0]
}

// TestWarmAcquireByCustomRun says how long it takes from a CustomRun's creation
// to its results, as a client sees it, while a cluster is there. It runs alone.
func TestWarmAcquireByCustomRun(t *testing.T) {
	ns := ciNamespace(t)
	for n := range 3 {
		warmPool(t)
		name := fmt.Sprintf("warm-%d", n)
		client := rig.Tekton.TektonV1beta1().CustomRuns(ns)
		w, err := client.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		if err != nil {
			t.Fatal(err)
		}
		run := &v1beta1.CustomRun{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1beta1.CustomRunSpec{
			CustomRef: &v1beta1.TaskRef{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "ClusterLease"},
			Timeout:   &metav1.Duration{Duration: 5 * time.Minute},
		}}
		for param, value := range map[string]string{"pool": poolName, "pool-namespace": poolNamespace, "ttl": "10m"} {
			run.Spec.Params = append(run.Spec.Params, v1beta1.Param{Name: param, Value: *v1beta1.NewStructuredValues(value)})
		}
		begin := time.Now()
		if run, err = client.Create(t.Context(), run, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for event := range w.ResultChan() {
			if seen, ok := event.Object.(*v1beta1.CustomRun); ok && seen.IsDone() {
				run = seen
				break
			}
		}
		took := time.Since(begin)
		w.Stop()
		if !run.IsSuccessful() || len(run.Status.Results) != 6 {
			t.Fatalf("acquire ended with %+v", run.Status)
		}
		t.Logf("warm acquire by CustomRun took %s", took.Round(time.Millisecond))
		if err := rig.Guest.GuestclusterV1alpha1().ClusterLeases(ns).Delete(t.Context(), "run-"+string(run.UID), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// warmPool waits until the pool has a cluster to give.
func warmPool(t *testing.T) {
	t.Helper()
	err := rigtest.Wait(t.Context(), "an available cluster", 5*time.Minute, func(ctx context.Context) (bool, string, error) {
		pool, err := rig.Guest.GuestclusterV1alpha1().ClusterPools(poolNamespace).Get(ctx, poolName, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		return pool.Status.AvailableInstances > 0, fmt.Sprintf("%+v", pool.Status), nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
