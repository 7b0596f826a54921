//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/test/rigtest"
)

// holdingRun acquires a cluster and then does what the step says, without any
// release.
func holdingRun(name, timeout, step string) string {
	return fmt.Sprintf(`
apiVersion: tekton.dev/v1
kind: PipelineRun
metadata:
  name: %s
spec:
  timeouts: {pipeline: %s}
  taskRunTemplate: {serviceAccountName: pipeline}
  pipelineSpec:
    tasks:
    - name: acquire
      taskRef: {name: acquire-cluster}
      params:
      - {name: pool, value: %s}
      - {name: pool-namespace, value: %s}
      - {name: acquire-timeout, value: 5m}
    - name: use
      runAfter: [acquire]
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
`, name, timeout, poolName, poolNamespace, rigtest.PlaceholderImage, step)
}

const (
	hang = `[proxy, "--port=0"]`
	fail = `[get, --no-such-flag]`
	pass = `[version, --client]`
)

// leaseIsFreedWhenTheRunEndsWithoutRelease: every way a run can end.
func leaseIsFreedWhenTheRunEndsWithoutRelease(t *testing.T) {
	t.Parallel()
	background := metav1.DeletePropagationBackground
	for name, tt := range map[string]struct {
		timeout, step string
		// end is done once the lease is bound; nil where the run ends by itself.
		end func(t *testing.T, ns, run string)
		// reasons that the lease may end with; none when it is deleted with its namespace.
		reasons []v1alpha1.Reason
	}{
		"finished":  {timeout: "10m", step: pass, reasons: []v1alpha1.Reason{v1alpha1.ReasonHolderDone}},
		"failed":    {timeout: "10m", step: fail, reasons: []v1alpha1.Reason{v1alpha1.ReasonHolderDone}},
		"timed out": {timeout: "75s", step: hang, reasons: []v1alpha1.Reason{v1alpha1.ReasonHolderDone}},
		"cancelled": {timeout: "10m", step: hang, reasons: []v1alpha1.Reason{v1alpha1.ReasonHolderDone}, end: func(t *testing.T, ns, run string) {
			patch := fmt.Sprintf(`{"spec":{"status":%q}}`, pipelinev1.PipelineRunSpecStatusCancelled)
			if _, err := rig.Tekton.TektonV1().PipelineRuns(ns).Patch(t.Context(), run, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}},
		"deleted": {timeout: "10m", step: hang, reasons: []v1alpha1.Reason{v1alpha1.ReasonHolderGone, v1alpha1.ReasonHolderDone}, end: func(t *testing.T, ns, run string) {
			if err := rig.Tekton.TektonV1().PipelineRuns(ns).Delete(t.Context(), run, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
				t.Fatal(err)
			}
		}},
		"namespace deleted": {timeout: "10m", step: hang, end: func(t *testing.T, ns, _ string) {
			if err := rig.Kube.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ns := ciNamespace(t)
			if err := rig.ApplyText(t.Context(), ns, holdingRun("holder", tt.timeout, tt.step)); err != nil {
				t.Fatal(err)
			}
			bound := waitLease(t, ns, "a lease that was bound", func(l *v1alpha1.ClusterLease) bool { return l.Status.BoundTime != nil })
			if tt.end != nil {
				tt.end(t, ns, "holder")
			}
			if tt.reasons != nil {
				ended := waitLease(t, ns, "a released lease", func(l *v1alpha1.ClusterLease) bool { return l.Status.Phase == v1alpha1.LeaseReleased })
				checkReason(t, ended, tt.reasons)
			}
			waitDestroyed(t, *bound.Status.InstanceRef)
			waitSecretGone(t, ns, bound.AccessSecretName())
		})
	}
}

func checkReason(t *testing.T, l *v1alpha1.ClusterLease, want []v1alpha1.Reason) {
	t.Helper()
	for _, r := range want {
		if l.Status.BoundReason() == r {
			return
		}
	}
	t.Errorf("the lease ended with %s (%s), want one of %v", l.Status.BoundReason(), l.Status.BoundMessage(), want)
}

func waitSecretGone(t *testing.T, ns, name string) {
	t.Helper()
	err := rigtest.Wait(t.Context(), "removal of Secret "+name, time.Minute, func(ctx context.Context) (bool, string, error) {
		_, err := rig.Kube.CoreV1().Secrets(ns).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, "", nil
		}
		return false, "it exists", err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestReleaseNeedsNoTekton: the cluster is destroyed while Tekton is down.
func TestReleaseNeedsNoTekton(t *testing.T) {
	ns := ciNamespace(t)
	if err := rig.ApplyText(t.Context(), ns, holdingRun("holder", "10m", hang)); err != nil {
		t.Fatal(err)
	}
	bound := waitLease(t, ns, "a bound lease", func(l *v1alpha1.ClusterLease) bool { return l.Status.Phase == v1alpha1.LeaseBound })
	scaleTekton(t, 0)
	defer scaleTekton(t, 1)
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"release": true}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rig.Guest.GuestclusterV1alpha1().ClusterLeases(ns).Patch(t.Context(), bound.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	waitLease(t, ns, "a released lease", func(l *v1alpha1.ClusterLease) bool { return l.Status.Phase == v1alpha1.LeaseReleased })
	waitDestroyed(t, *bound.Status.InstanceRef)
}

// scaleTekton stops or starts Tekton's controller; its webhook stays.
func scaleTekton(t *testing.T, replicas int) {
	t.Helper()
	ctx := context.Background()
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
	_, err := rig.Kube.AppsV1().Deployments("tekton-pipelines").Patch(ctx, "tekton-pipelines-controller", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = rigtest.Wait(ctx, "Tekton to have the wanted replicas", 2*time.Minute, func(ctx context.Context) (bool, string, error) {
		d, err := rig.Kube.AppsV1().Deployments("tekton-pipelines").Get(ctx, "tekton-pipelines-controller", metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		return d.Status.ObservedGeneration == d.Generation && int(d.Status.ReadyReplicas) == replicas && int(d.Status.Replicas) == replicas, fmt.Sprintf("%+v", d.Status), nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
