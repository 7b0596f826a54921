//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/test/rigtest"
)

const (
	poolNamespace = "clusters"
	poolName      = "e2e-pool"
	// ciLabel marks the namespaces whose leases e2e-pool serves.
	ciLabel = "guestcluster.test/e2e"
)

var rig *rigtest.Rig

func TestMain(m *testing.M) {
	ctx := context.Background()
	var err error
	if rig, err = rigtest.Connect(); err == nil {
		err = setUp(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := tearDown(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: clean up:", err)
		code = 1
	}
	os.Exit(code)
}

func setUp(ctx context.Context) error {
	if err := rig.Apply(ctx, "", "examples/custom-topology/"); err != nil {
		return err
	}
	// The demo's pools would only take CPU from the tests.
	for _, name := range []string{"demo-pool", "crc-pool"} {
		err := rig.Guest.GuestclusterV1alpha1().ClusterPools(poolNamespace).Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return rig.ApplyText(ctx, "", poolYAML)
}

func tearDown(ctx context.Context) error {
	pools := rig.Guest.GuestclusterV1alpha1().ClusterPools(poolNamespace)
	if err := pools.Delete(ctx, poolName, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return rigtest.Wait(ctx, "deletion of the pool and its instances", 3*time.Minute, func(ctx context.Context) (bool, string, error) {
		pool, err := pools.Get(ctx, poolName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, "", nil
		}
		if err != nil {
			return false, "", err
		}
		return false, fmt.Sprintf("%+v", pool.Status.Conditions), nil
	})
}

const poolYAML = `
apiVersion: guestcluster.opdev.io/v1alpha1
kind: ClusterPool
metadata:
  name: ` + poolName + `
  namespace: ` + poolNamespace + `
spec:
  type: custom
  warmSpares: 1
  maxSize: 4
  maxConcurrent: 2
  allowedNamespaces:
    matchLabels:
      ` + ciLabel + `: "true"
  provisioning:
    pipeline: single-pod-kubernetes
    timeout: 10m
  template:
    params:
      image: ` + rigtest.PlaceholderImage + `
`

// ciNamespace makes a CI namespace as examples/ci-namespace.yaml does, with the
// lessee Tasks in it, and removes it after the test.
func ciNamespace(t *testing.T) string {
	t.Helper()
	ctx := t.Context()
	name := "ci-" + rand.String(5)
	text, err := os.ReadFile(rig.Root + "/examples/ci-namespace.yaml")
	if err != nil {
		t.Fatal(err)
	}
	yaml := strings.ReplaceAll(string(text), "namespace: ci\n", "namespace: "+name+"\n")
	yaml = strings.ReplaceAll(yaml, "name: ci\n", "name: "+name+"\n")
	yaml = strings.Replace(yaml, "labels:\n", "labels:\n    "+ciLabel+": \"true\"\n    rig.guestcluster.opdev.io/scc: restricted-v2\n", 1)
	if err := rig.ApplyText(ctx, "", yaml); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := rig.Kube.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("delete namespace %s: %v", name, err)
		}
	})
	if err := rig.Apply(ctx, name, "tasks/lessee/"); err != nil {
		t.Fatal(err)
	}
	return name
}

// runPipeline creates a PipelineRun from YAML and returns it.
func runPipeline(t *testing.T, namespace, name, yaml string) *pipelinev1.PipelineRun {
	t.Helper()
	if err := rig.ApplyText(t.Context(), namespace, yaml); err != nil {
		t.Fatal(err)
	}
	run, err := rig.Tekton.TektonV1().PipelineRuns(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// waitRun waits for the end of a run.
func waitRun(t *testing.T, namespace, name string) *pipelinev1.PipelineRun {
	t.Helper()
	var run *pipelinev1.PipelineRun
	err := rigtest.Wait(t.Context(), "end of PipelineRun "+name, 6*time.Minute, func(ctx context.Context) (bool, string, error) {
		var err error
		run, err = rig.Tekton.TektonV1().PipelineRuns(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		return run.IsDone(), fmt.Sprintf("%v; leases: %s", run.Status.Conditions, leaseTexts(ctx, namespace)), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func leaseTexts(ctx context.Context, namespace string) string {
	leases, err := rig.Guest.GuestclusterV1alpha1().ClusterLeases(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	var texts []string
	for _, l := range leases.Items {
		texts = append(texts, fmt.Sprintf("%s %s: %s", l.Name, l.Status.Phase, l.Status.BoundMessage()))
	}
	return strings.Join(texts, "; ")
}

// waitLease waits until the only lease of a namespace is as wanted.
func waitLease(t *testing.T, namespace, what string, want func(*v1alpha1.ClusterLease) bool) *v1alpha1.ClusterLease {
	t.Helper()
	return waitLeaseFor(t, namespace, what, 5*time.Minute, want)
}

func waitLeaseFor(t *testing.T, namespace, what string, limit time.Duration, want func(*v1alpha1.ClusterLease) bool) *v1alpha1.ClusterLease {
	t.Helper()
	var lease *v1alpha1.ClusterLease
	err := rigtest.Wait(t.Context(), what, limit, func(ctx context.Context) (bool, string, error) {
		leases, err := rig.Guest.GuestclusterV1alpha1().ClusterLeases(namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(leases.Items) != 1 {
			return false, fmt.Sprintf("%d leases", len(leases.Items)), err
		}
		lease = &leases.Items[0]
		return want(lease), leaseTexts(ctx, namespace), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// waitDestroyed waits until nothing of an instance is left, of any kind.
func waitDestroyed(t *testing.T, ref v1alpha1.ObjectReference) {
	t.Helper()
	err := rigtest.Wait(t.Context(), "destruction of instance "+ref.Name, 3*time.Minute, func(ctx context.Context) (bool, string, error) {
		left, err := rig.OwnedBy(ctx, ref.Namespace, ref.UID)
		if err != nil || len(left) > 0 {
			return false, "left: " + strings.Join(left, ", "), err
		}
		i, err := rig.Guest.GuestclusterV1alpha1().ClusterInstances(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || (err == nil && i.UID != ref.UID) {
			return true, "", nil
		}
		return false, "the instance itself", err
	})
	if err != nil {
		t.Fatal(err)
	}
}
