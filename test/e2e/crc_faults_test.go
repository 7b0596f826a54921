//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/test/rigtest"
)

// TestMachinesThatFail: task, step and exit code are named, what is known of
// the guest is gathered, and nothing is left but the instance and its evidence.
func TestMachinesThatFail(t *testing.T) {
	for name, tt := range map[string]struct {
		fault, task string
		code        int32
		says        string
	}{
		"a guest that wants another key":   {"guest-faults: ssh-other-key", "fix-up-guest", 10, "key"},
		"a guest whose user may not sudo":  {"guest-faults: sudo-denied", "fix-up-guest", 10, "sudo"},
		"a disk whose copy fails for ever": {"fail: no such block", "boot-vm", 11, "no such block"},
		"a machine that fits on no node":   {"unschedulable: \"true\"", "boot-vm", 11, "nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := machineNamespace(t, tt.fault)
			standalone(t, ns, crcVersion, "")
			i := waitFailed(t, ns)
			f := i.Status.Failure
			if f.Task != tt.task || f.Step != tt.task || f.ExitCode != tt.code || !strings.Contains(f.Message, tt.says) {
				t.Errorf("failure is %+v, want task %s, exit code %d, a message with %q", f, tt.task, tt.code, tt.says)
			}
			checkGathered(t, ns, i)
			waitChildrenGone(t, ns, i)
		})
	}
}

func machineNamespace(t *testing.T, fault string) string {
	t.Helper()
	ns := "fault-" + rand.String(5)
	yaml := fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata:
  name: %[1]s
  labels: {guestcluster.opdev.io/enabled: "true"}
  annotations:
    rig.guestcluster.opdev.io/%[2]s
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: guestcluster-namespace, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: guestcluster-namespace}
subjects: [{kind: ServiceAccount, name: guestcluster-controller, namespace: guestcluster-system}]
`, ns, fault)
	if err := rig.ApplyText(t.Context(), "", yaml); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := rig.Kube.CoreV1().Namespaces().Delete(context.Background(), ns, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	if err := rig.ApplyText(t.Context(), ns, rigtest.PullSecret(guestcluster.DefaultPullSecret)); err != nil {
		t.Fatal(err)
	}
	return ns
}

// standalone makes an instance without a pool, and the bundle that it needs.
func standalone(t *testing.T, ns, version, pipeline string) {
	t.Helper()
	bundle := fmt.Sprintf("{apiVersion: guestcluster.opdev.io/v1alpha1, kind: CRCBundle, metadata: {name: %s}, spec: {version: %q}}", v1alpha1.BundleName(version, ""), version)
	if err := rig.ApplyText(t.Context(), "", bundle); err != nil {
		t.Fatal(err)
	}
	yaml := fmt.Sprintf("{apiVersion: guestcluster.opdev.io/v1alpha1, kind: ClusterInstance, metadata: {name: alone}, spec: {type: crc, provisioning: {timeout: 15m, pipeline: %q}, template: {crcVersion: %q}}}",
		cmp.Or(pipeline, "provision-crc"), version)
	if err := rig.ApplyText(t.Context(), ns, yaml); err != nil {
		t.Fatal(err)
	}
}

func waitFailed(t *testing.T, ns string) *v1alpha1.ClusterInstance {
	t.Helper()
	var i *v1alpha1.ClusterInstance
	waitFor(t, "a Failed instance", func(ctx context.Context) (bool, string) {
		var err error
		if i, err = rig.Guest.GuestclusterV1alpha1().ClusterInstances(ns).Get(ctx, "alone", metav1.GetOptions{}); err != nil {
			return false, err.Error()
		}
		return i.IsFailed(), fmt.Sprintf("%s: %+v", i.Status.Phase, i.Status.Conditions)
	})
	return i
}

// waitChildrenGone: of a failed instance only its run and what was gathered stay.
func waitChildrenGone(t *testing.T, ns string, i *v1alpha1.ClusterInstance) {
	t.Helper()
	waitFor(t, "its VM, disk and rights to be gone", func(ctx context.Context) (bool, string) {
		left, err := rig.OwnedBy(ctx, ns, i.UID)
		for _, what := range left {
			for _, kind := range []string{"virtualmachine", "datavolume", "persistentvolumeclaim", "secrets/", "services/", "routes/", "role", "serviceaccounts/"} {
				if strings.HasPrefix(what, kind) {
					return false, what
				}
			}
		}
		return err == nil, fmt.Sprint(err)
	})
}

func checkGathered(t *testing.T, ns string, i *v1alpha1.ClusterInstance) {
	t.Helper()
	if !strings.Contains(i.Status.Failure.Message, "gathered: ConfigMap "+i.GatherName()) {
		t.Errorf("the message names no gathered ConfigMap: %s", i.Status.Failure.Message)
	}
	gathered, err := rig.Kube.CoreV1().ConfigMaps(ns).Get(t.Context(), i.GatherName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(gathered.Data) < 3 {
		t.Errorf("only %d parts were gathered", len(gathered.Data))
	}
	for name, text := range gathered.Data {
		if strings.Contains(text, "PRIVATE KEY") || strings.Contains(text, "cmlnOm9wZW5zLW5vdGhpbmc=") {
			t.Errorf("%s holds a key or a pull secret", name)
		}
	}
}
