//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/test/rigtest"
)

// example reads a file of examples/ and moves it to a namespace and the e2e pool.
func example(t *testing.T, file, namespace string) string {
	t.Helper()
	text, err := os.ReadFile(rig.Root + "/examples/" + file)
	if err != nil {
		t.Fatal(err)
	}
	yaml := strings.ReplaceAll(string(text), "namespace: ci\n", "namespace: "+namespace+"\n")
	return strings.ReplaceAll(yaml, "value: demo-pool", "value: "+poolName)
}

// TestLeases groups what may run side by side; the tests of other files change
// the whole installation and run alone.
func TestLeases(t *testing.T) {
	t.Run("a pipeline tests on a leased cluster", pipelineTestsOnALeasedCluster)
	t.Run("two clusters in one run by slots", twoClustersInOneRunBySlots)
	t.Run("an unknown pool fails the run at once and leaves no lease", unknownPoolFailsTheRunAtOnceAndLeavesNoLease)
	t.Run("a pipeline acquires and releases without a pod", pipelineTestsWithoutAPodForAcquire)
	t.Run("a cancelled run gives its waiting lease up", cancelledRunGivesItsWaitingLeaseUp)
	t.Run("the lease is freed when the run ends without release", leaseIsFreedWhenTheRunEndsWithoutRelease)
}

func pipelineTestsOnALeasedCluster(t *testing.T) {
	t.Parallel()
	ns := ciNamespace(t)
	run := runPipeline(t, ns, "test-on-a-cluster-1", example(t, "ci-pipeline.yaml", ns))
	lease := waitLease(t, ns, "a bound lease", func(l *v1alpha1.ClusterLease) bool { return l.Status.Phase == v1alpha1.LeaseBound })
	if lease.Spec.HolderRef == nil || lease.Spec.HolderRef.UID != run.UID {
		t.Errorf("holder is %+v, want the PipelineRun %s", lease.Spec.HolderRef, run.UID)
	}
	secrets := canaries(t, ns, lease)
	done := waitRun(t, ns, run.Name)
	if !done.IsSuccessful() {
		t.Fatalf("run failed: %+v", done.Status.Conditions)
	}
	released := waitLease(t, ns, "a released lease", func(l *v1alpha1.ClusterLease) bool { return l.Status.Phase == v1alpha1.LeaseReleased })
	if reason := released.Status.BoundReason(); reason != v1alpha1.ReasonReleased {
		t.Errorf("reason %s, want the release Task to be first: Released", reason)
	}
	checkResults(t, ns)
	checkNoCanary(t, ns, secrets)
	waitDestroyed(t, *lease.Status.InstanceRef)
}

func twoClustersInOneRunBySlots(t *testing.T) {
	t.Parallel()
	ns := ciNamespace(t)
	run := runPipeline(t, ns, "test-on-two-clusters-1", example(t, "two-clusters.yaml", ns))
	if done := waitRun(t, ns, run.Name); !done.IsSuccessful() {
		t.Fatalf("run failed: %+v", done.Status.Conditions)
	}
	leases, err := rig.Guest.GuestclusterV1alpha1().ClusterLeases(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(leases.Items) != 2 {
		t.Fatalf("%d leases, want 2", len(leases.Items))
	}
	a, b := leases.Items[0].Status.InstanceRef, leases.Items[1].Status.InstanceRef
	if a == nil || b == nil || a.UID == b.UID {
		t.Errorf("the two leases had instances %+v and %+v, want two different ones", a, b)
	}
	for _, ref := range []*v1alpha1.ObjectReference{a, b} {
		waitDestroyed(t, *ref)
	}
}

func unknownPoolFailsTheRunAtOnceAndLeavesNoLease(t *testing.T) {
	t.Parallel()
	ns := ciNamespace(t)
	yaml := strings.ReplaceAll(example(t, "ci-pipeline.yaml", ns), "value: "+poolName, "value: no-such-pool")
	runPipeline(t, ns, "test-on-a-cluster-1", yaml)
	if done := waitRun(t, ns, "test-on-a-cluster-1"); done.IsSuccessful() {
		t.Fatal("the run succeeded without a pool")
	}
	if text := podLogs(t, ns); !strings.Contains(text, "no-such-pool") || !strings.Contains(text, "no ClusterPool") {
		t.Errorf("the log does not name the missing pool:\n%s", text)
	}
	err := rigtest.Wait(t.Context(), "removal of the lease", time.Minute, func(ctx context.Context) (bool, string, error) {
		leases, err := rig.Guest.GuestclusterV1alpha1().ClusterLeases(ns).List(ctx, metav1.ListOptions{})
		return err == nil && len(leases.Items) == 0, leaseTexts(ctx, ns), err
	})
	if err != nil {
		t.Error(err)
	}
}

// checkResults: names only, below 1 KiB in total.
func checkResults(t *testing.T, ns string) {
	t.Helper()
	tasks, err := rig.Tekton.TektonV1().TaskRuns(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "tekton.dev/pipelineTask=acquire"})
	if err != nil || len(tasks.Items) != 1 {
		t.Fatalf("TaskRun of acquire: %d, %v", len(tasks.Items), err)
	}
	results := tasks.Items[0].Status.Results
	text, err := json.Marshal(results)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 1024 {
		t.Errorf("results have %d bytes, want at most 1024: %s", len(text), text)
	}
	got := map[string]string{}
	for _, r := range results {
		got[r.Name] = r.Value.StringVal
	}
	for _, name := range []string{"lease", "kubeconfig-secret", "api-endpoint", "ocp-version", "topology", "expires-at"} {
		if got[name] == "" {
			t.Errorf("result %s is empty: %s", name, text)
		}
	}
}
