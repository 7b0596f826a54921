//go:build e2e

package e2e

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// TestUndeployWithLiveInstances runs last (tests run in the order of files): a
// bound lease and a warm spare exist when the installation is removed.
func TestUndeployWithLiveInstances(t *testing.T) {
	ns := ciNamespace(t)
	if err := rig.ApplyText(t.Context(), ns, holdingRun("holder", "10m", hang)); err != nil {
		t.Fatal(err)
	}
	bound := waitLease(t, ns, "a bound lease", func(l *v1alpha1.ClusterLease) bool { return l.Status.Phase == v1alpha1.LeaseBound })
	defer reinstall(t)

	cmd := exec.CommandContext(t.Context(), "make", "--no-print-directory", "undeploy")
	cmd.Dir = rig.Root
	cmd.Env = append(os.Environ(), "ON="+rig.Program()+" exec --")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make undeploy: %v\n%s", err, out)
	}
	left, err := rig.OwnedBy(t.Context(), bound.Status.InstanceRef.Namespace, bound.Status.InstanceRef.UID)
	if err != nil || len(left) > 0 {
		t.Errorf("left of the leased instance: %s, %v", strings.Join(left, ", "), err)
	}
	if _, err := rig.Guest.GuestclusterV1alpha1().ClusterPools("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the CRDs are still there: %v", err)
	}
	if _, err := rig.Kube.CoreV1().Namespaces().Get(t.Context(), guestcluster.SystemNamespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace is still there: %v", err)
	}
}

func reinstall(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	cmd := exec.CommandContext(ctx, "hack/rig-deploy.sh")
	cmd.Dir = rig.Root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("install again: %v\n%s", err, out)
	}
}
