//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/test/rigtest"
)

const (
	crcPool    = "e2e-crc"
	crcVersion = "4.19.3"
)

var (
	vms  = schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachines"}
	vmis = schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachineinstances"}
)

const crcPoolYAML = `
apiVersion: guestcluster.opdev.io/v1alpha1
kind: ClusterPool
metadata: {name: ` + crcPool + `, namespace: ` + poolNamespace + `}
spec:
  type: crc
  maxSize: 2
  allowedNamespaces:
    matchLabels: {` + ciLabel + `: "true"}
  provisioning: {timeout: 20m}
  template:
    crcVersion: "` + crcVersion + `"
    ocpVersion: "` + crcVersion + `"
`

// TestCRC groups what may run side by side on one crc pool.
func TestCRC(t *testing.T) {
	if err := rig.ApplyText(t.Context(), poolNamespace, rigtest.PullSecret(guestcluster.DefaultPullSecret)); err != nil {
		t.Fatal(err)
	}
	if err := rig.ApplyText(t.Context(), "", crcPoolYAML); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removePool(t, poolNamespace, crcPool) })
	t.Run("a pipeline tests on a leased guest, and nothing is left", pipelineTestsOnACRCGuest)
	t.Run("a leased guest outlives restarts, a lost one is told", guestOutlivesRestartsAndTellsLosses)
	t.Run("a bundle that the mirror lacks", bundleThatTheMirrorLacks)
	t.Run("a person prepares a bundle", personPreparesABundle)
}

// pipelineTestsOnACRCGuest: from the bundle on the mirror to a leased cluster, and to nothing left.
func pipelineTestsOnACRCGuest(t *testing.T) {
	t.Parallel()
	ns := ciNamespace(t)
	yaml := strings.ReplaceAll(example(t, "ci-pipeline.yaml", ns), "value: "+poolName, "value: "+crcPool)
	runPipeline(t, ns, "test-on-a-cluster-1", yaml)
	bound := waitLeaseFor(t, ns, "a bound lease", 15*time.Minute, func(l *v1alpha1.ClusterLease) bool { return l.Status.Phase == v1alpha1.LeaseBound })
	checkCRCAccess(t, ns, bound)
	secrets := append(canaries(t, ns, bound), crcCanaries(t, bound)...)
	if done := waitRun(t, ns, "test-on-a-cluster-1"); !done.IsSuccessful() {
		t.Fatalf("run failed: %+v", done.Status.Conditions)
	}
	checkNoCanary(t, ns, secrets)
	golden := goldenVolume(t)
	waitCRCDestroyed(t, *bound.Status.InstanceRef)
	if now := goldenVolume(t); now != golden {
		t.Errorf("the golden volume changed: UID %s, was %s", now, golden)
	}
}

// guestOutlivesRestartsAndTellsLosses: a leased guest is stopped, replaced, and its VM deleted.
func guestOutlivesRestartsAndTellsLosses(t *testing.T) {
	t.Parallel()
	ns := ciNamespace(t)
	lease := `{apiVersion: guestcluster.opdev.io/v1alpha1, kind: ClusterLease, metadata: {name: manual},
  spec: {poolRef: {name: ` + crcPool + `, namespace: ` + poolNamespace + `}, ttl: 1h}}`
	if err := rig.ApplyText(t.Context(), ns, lease); err != nil {
		t.Fatal(err)
	}
	bound := waitLeaseFor(t, ns, "a bound lease", 15*time.Minute, func(l *v1alpha1.ClusterLease) bool { return l.Status.Phase == v1alpha1.LeaseBound })
	useGuest(t, ns, bound)
	name := crcName(t, *bound.Status.InstanceRef)

	was := vmiUID(t, name)
	halt := []byte(`{"spec":{"runStrategy":"Halted"}}`)
	if _, err := rig.Dynamic.Resource(vms).Namespace(poolNamespace).Patch(t.Context(), name, types.MergePatchType, halt, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "another VMI of the same VM", func(context.Context) (bool, string) {
		now := vmiUID(t, name)
		return now != "" && now != was, "UID " + now
	})
	useGuest(t, ns, bound)
	waitFor(t, "the instance to name the new VMI", func(ctx context.Context) (bool, string) {
		i := instanceOf(t, *bound.Status.InstanceRef)
		return i.Status.CRC != nil && string(i.Status.CRC.VMIUID) == vmiUID(t, name) && i.IsReady(), fmt.Sprintf("%+v", i.Status.Conditions)
	})

	if err := rig.Dynamic.Resource(vms).Namespace(poolNamespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	lost := waitLease(t, ns, "a lost lease", func(l *v1alpha1.ClusterLease) bool { return l.Status.BoundReason() == v1alpha1.ReasonInstanceLost })
	if lost.Status.Phase == v1alpha1.LeaseBound {
		t.Errorf("a lease without its VM is %s", lost.Status.Phase)
	}
	waitCRCDestroyed(t, *bound.Status.InstanceRef)
}

// bundleThatTheMirrorLacks: the pool says what is missing, with its URL, and makes nothing.
func bundleThatTheMirrorLacks(t *testing.T) {
	t.Parallel()
	const pool, version = "e2e-no-bundle", "4.19.99"
	yaml := strings.ReplaceAll(strings.ReplaceAll(crcPoolYAML, crcPool, pool), crcVersion, version)
	if err := rig.ApplyText(t.Context(), "", strings.ReplaceAll(yaml, "  maxSize: 2", "  maxSize: 2\n  minSize: 1")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removePool(t, poolNamespace, pool); removeBundle(t, version) })
	bundles := rig.Guest.GuestclusterV1alpha1().CRCBundles()
	waitFor(t, "a Failed bundle", func(ctx context.Context) (bool, string) {
		b, err := bundles.Get(ctx, v1alpha1.BundleName(version, ""), metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		f := b.Status.Failure
		return b.Status.Phase == v1alpha1.BundleFailed && f != nil && f.ExitCode == 10 && f.Task == "create-golden-volume" &&
			strings.Contains(f.Message, "https://mirror.openshift.com/") && strings.Contains(f.Message, version), fmt.Sprintf("%+v", b.Status)
	})
	waitFor(t, "a pool that says so", func(ctx context.Context) (bool, string) {
		p, err := rig.Guest.GuestclusterV1alpha1().ClusterPools(poolNamespace).Get(ctx, pool, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		text, _ := json.Marshal(p.Status)
		return p.Status.TotalInstances == 0 && strings.Contains(string(text), string(v1alpha1.ReasonBundleFailed)), string(text)
	})
	_, err := rig.Kube.CoreV1().PersistentVolumeClaims(guestcluster.BundleNamespace).Get(t.Context(), v1alpha1.BundleName(version, ""), metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("a golden volume exists for a bundle that does not: %v", err)
	}
}

// personPreparesABundle: what `tkn pipeline start prepare-bundle -p version=...` creates, then adoption.
func personPreparesABundle(t *testing.T) {
	t.Parallel()
	const version = "4.98.0"
	created, err := rig.Exec(t.Context(), fmt.Sprintf(`
apiVersion: tekton.dev/v1
kind: PipelineRun
metadata: {generateName: prepare-bundle-run-, namespace: %s}
spec:
  pipelineRef: {name: prepare-bundle}
  params: [{name: version, value: "%s"}]
`, guestcluster.BundleNamespace, version), "kubectl", "create", "-f", "-", "-o", "name")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeBundle(t, version) })
	run := strings.TrimPrefix(strings.TrimSpace(created), "pipelinerun.tekton.dev/")
	waitFor(t, "a Ready bundle of that run", func(ctx context.Context) (bool, string) {
		b, err := rig.Guest.GuestclusterV1alpha1().CRCBundles().Get(ctx, v1alpha1.BundleName(version, ""), metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return b.Status.Phase == v1alpha1.BundleReady && b.Status.Run != nil && b.Status.Run.Name == run, fmt.Sprintf("%+v", b.Status)
	})
}

func removePool(t *testing.T, namespace, name string) {
	t.Helper()
	pools := rig.Guest.GuestclusterV1alpha1().ClusterPools(namespace)
	if err := pools.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	err := rigtest.Wait(context.Background(), "deletion of pool "+name, 4*time.Minute, func(ctx context.Context) (bool, string, error) {
		_, err := pools.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), "it still exists", nil
	})
	if err != nil {
		t.Error(err)
	}
}

// removeBundle checks that volume, key and runs go with the bundle.
func removeBundle(t *testing.T, version string) {
	t.Helper()
	ctx, name := context.Background(), v1alpha1.BundleName(version, "")
	if err := rig.Guest.GuestclusterV1alpha1().CRCBundles().Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	err := rigtest.Wait(ctx, "deletion of bundle "+name, 2*time.Minute, func(ctx context.Context) (bool, string, error) {
		_, err := rig.Guest.GuestclusterV1alpha1().CRCBundles().Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), "it still exists", nil
	})
	if err != nil {
		t.Error(err)
		return
	}
	if _, err := rig.Kube.CoreV1().PersistentVolumeClaims(guestcluster.BundleNamespace).Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("its golden volume: %v, want it gone", err)
	}
	if _, err := rig.Kube.CoreV1().Secrets(guestcluster.BundleNamespace).Get(ctx, v1alpha1.BootKeySecretName(name), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("its boot key: %v, want it gone", err)
	}
}

func checkCRCAccess(t *testing.T, ns string, lease *v1alpha1.ClusterLease) {
	t.Helper()
	access, err := rig.Kube.CoreV1().Secrets(ns).Get(t.Context(), lease.AccessSecretName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(access.Data[guestcluster.KubeadminPasswordKey]) < 20 {
		t.Errorf("the access Secret has no kubeadmin password: keys %v", keysOf(access.Data))
	}
	if got := string(access.Data[guestcluster.OCPVersionKey]); got != crcVersion {
		t.Errorf("version %q, want the bundle's %s", got, crcVersion)
	}
	if lease.Status.Topology != "crc" {
		t.Errorf("topology %q", lease.Status.Topology)
	}
}

func keysOf(data map[string][]byte) []string {
	var keys []string
	for key := range data {
		keys = append(keys, key)
	}
	return keys
}

// crcCanaries are what only crc has: boot key, pull secret, password.
func crcCanaries(t *testing.T, lease *v1alpha1.ClusterLease) []string {
	t.Helper()
	identity, err := rig.Kube.CoreV1().Secrets(poolNamespace).Get(t.Context(), crcName(t, *lease.Status.InstanceRef)+"-identity", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var pull struct {
		Auths map[string]struct{ Auth string }
	}
	if err := json.Unmarshal(identity.Data[guestcluster.PullSecretKey], &pull); err != nil {
		t.Fatal(err)
	}
	found := append(encodings(identity.Data[guestcluster.BootSSHPrivateKeyKey]), string(identity.Data[guestcluster.KubeadminPasswordKey]))
	for _, entry := range pull.Auths {
		found = append(found, entry.Auth)
	}
	if len(found) < 4 {
		t.Fatalf("only %d canaries", len(found))
	}
	return found
}

func instanceOf(t *testing.T, ref v1alpha1.ObjectReference) *v1alpha1.ClusterInstance {
	t.Helper()
	i, err := rig.Guest.GuestclusterV1alpha1().ClusterInstances(ref.Namespace).Get(t.Context(), ref.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func crcName(t *testing.T, ref v1alpha1.ObjectReference) string {
	t.Helper()
	i := &v1alpha1.ClusterInstance{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}}
	return i.DerivedName()
}

func vmiUID(t *testing.T, name string) string {
	t.Helper()
	vmi, err := rig.Dynamic.Resource(vmis).Namespace(poolNamespace).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(vmi.GetUID())
}

func goldenVolume(t *testing.T) types.UID {
	t.Helper()
	pvc, err := rig.Kube.CoreV1().PersistentVolumeClaims(guestcluster.BundleNamespace).Get(t.Context(), v1alpha1.BundleName(crcVersion, ""), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pvc.UID
}

// useGuest reads the guest's nodes through the Route with the lease's own kubeconfig.
func useGuest(t *testing.T, ns string, lease *v1alpha1.ClusterLease) {
	t.Helper()
	access, err := rig.Kube.CoreV1().Secrets(ns).Get(t.Context(), lease.AccessSecretName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.CreateTemp(t.TempDir(), "kubeconfig")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(access.Data[guestcluster.KubeconfigKey]); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "an answer of the guest at "+lease.Status.APIEndpoint, func(ctx context.Context) (bool, string) {
		out, err := rig.Exec(ctx, "", "kubectl", "--kubeconfig", file.Name(), "get", "nodes", "-o", "name")
		return err == nil && strings.Contains(out, "node/"), fmt.Sprint(out, err)
	})
}

func waitFor(t *testing.T, what string, ask func(context.Context) (bool, string)) {
	t.Helper()
	err := rigtest.Wait(t.Context(), what, 6*time.Minute, func(ctx context.Context) (bool, string, error) {
		done, reason := ask(ctx)
		return done, reason, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// waitCRCDestroyed also looks into the namespace of bundles, where an instance has its right to clone.
func waitCRCDestroyed(t *testing.T, ref v1alpha1.ObjectReference) {
	t.Helper()
	waitDestroyed(t, ref)
	left, err := rig.OwnedBy(t.Context(), guestcluster.BundleNamespace, ref.UID)
	if err != nil || len(left) > 0 {
		t.Errorf("left in %s: %s, %v", guestcluster.BundleNamespace, strings.Join(left, ", "), err)
	}
	pods, err := rig.Kube.CoreV1().Pods(poolNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: guestcluster.EndpointLabel + "=" + string(ref.UID)})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		if p.Status.Phase == corev1.PodRunning {
			t.Errorf("pod %s still runs", p.Name)
		}
	}
}

// TestOddBundles: what the mirror can serve wrongly fails the bundle with a
// text for people, and nothing of it can be cloned; what is merely unusual works.
func TestOddBundles(t *testing.T) {
	for name, tt := range map[string]struct {
		version, task string
		says          []string
	}{
		"a checksum that does not match":    {version: "4.98.10", task: "fetch-bundle", says: []string{"checksum of https://mirror.openshift.com/", ", not "}},
		"a truncated archive":               {version: "4.98.11", task: "fetch-bundle"},
		"another architecture inside":       {version: "4.98.33", task: "create-golden-volume", says: []string{"arm64", "amd64"}},
		"a disk of 43 GiB, as from 4.22 on": {version: "4.98.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bundle := fmt.Sprintf("{apiVersion: guestcluster.opdev.io/v1alpha1, kind: CRCBundle, metadata: {name: crc-%s-amd64}, spec: {version: %q}}", tt.version, tt.version)
			if err := rig.ApplyText(t.Context(), "", bundle); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { removeBundle(t, tt.version) })
			var b *v1alpha1.CRCBundle
			waitFor(t, "the end of the preparation", func(ctx context.Context) (bool, string) {
				var err error
				if b, err = rig.Guest.GuestclusterV1alpha1().CRCBundles().Get(ctx, v1alpha1.BundleName(tt.version, ""), metav1.GetOptions{}); err != nil {
					return false, err.Error()
				}
				return b.Status.Phase == v1alpha1.BundleFailed || b.Status.Phase == v1alpha1.BundleReady, fmt.Sprintf("%+v", b.Status)
			})
			if tt.task == "" {
				checkSize(t, b, "46Gi")
				return
			}
			f := b.Status.Failure
			if f == nil || f.Task != tt.task || f.ExitCode != 10 {
				t.Fatalf("bundle is %s, failure %+v, want task %s with exit code 10", b.Status.Phase, f, tt.task)
			}
			for _, word := range tt.says {
				if !strings.Contains(f.Message, word) {
					t.Errorf("message %q does not say %q", f.Message, word)
				}
			}
		})
	}
}

func checkSize(t *testing.T, b *v1alpha1.CRCBundle, want string) {
	t.Helper()
	if b.Status.Phase != v1alpha1.BundleReady {
		t.Fatalf("bundle is %s: %+v", b.Status.Phase, b.Status.Failure)
	}
	pvc, err := rig.Kube.CoreV1().PersistentVolumeClaims(guestcluster.BundleNamespace).Get(t.Context(), b.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := pvc.Spec.Resources.Requests[corev1.ResourceStorage]; got.String() != want {
		t.Errorf("the golden volume has %s, want %s", got.String(), want)
	}
}
