//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/test/rigtest"
)

var dataVolumes = schema.GroupVersionResource{Group: "cdi.kubevirt.io", Version: "v1beta1", Resource: "datavolumes"}

// TestSourcesAndServersThatFail groups what may run side by side: each has a
// namespace or a bundle of its own.
func TestSourcesAndServersThatFail(t *testing.T) {
	t.Run("a golden volume in use is waited for", goldenVolumeInUse)
	t.Run("a cluster from a disk image and its key", clusterFromADiskImage)
	t.Run("servers", serversThatFail)
}

// goldenVolumeInUse: nothing fails while a pod mounts the source; the run says
// which pod, and goes on without being asked.
func goldenVolumeInUse(t *testing.T) {
	t.Parallel()
	const version = "4.98.2"
	readyBundle(t, version)
	free := mount(t, version)
	ns := machineNamespace(t, "none: \"true\"")
	standalone(t, ns, version, "")
	waitFor(t, "a run that names the pod", func(context.Context) (bool, string) {
		text := podLogs(t, ns)
		return strings.Contains(text, "CloneSourceInUse") && strings.Contains(text, "delete it"), text
	})
	i := instanceOf(t, v1alpha1.ObjectReference{Namespace: ns, Name: "alone"})
	if i.IsFailed() || i.IsReady() {
		t.Errorf("the instance is %s while its source is in use", i.Status.Phase)
	}
	free()
	waitFor(t, "a filled disk", func(ctx context.Context) (bool, string) {
		volume, err := rig.Dynamic.Resource(dataVolumes).Namespace(ns).Get(ctx, i.DerivedName(), metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return strings.Contains(fmt.Sprint(volume.Object["status"]), "Succeeded"), fmt.Sprint(volume.Object["status"])
	})
	remove(t, i)
	waitDestroyed(t, v1alpha1.ObjectReference{Namespace: ns, Name: i.Name, UID: i.UID})
}

// clusterFromADiskImage is the path without a public bundle, up to a lease.
func clusterFromADiskImage(t *testing.T) {
	t.Parallel()
	const pool, keySecret = "e2e-manual", "e2e-boot-key"
	key, err := rig.BootKey()
	if err != nil {
		t.Fatal(err)
	}
	secrets := rig.Kube.CoreV1().Secrets(poolNamespace)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: keySecret}, Data: map[string][]byte{guestcluster.BootKeyKey: key}}
	if _, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := secrets.Delete(context.Background(), keySecret, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	if err := rig.ApplyText(t.Context(), poolNamespace, rigtest.PullSecret(guestcluster.DefaultPullSecret)); err != nil {
		t.Fatal(err)
	}
	yaml := strings.ReplaceAll(crcPoolYAML, crcPool, pool)
	yaml, _, _ = strings.Cut(yaml, "  template:")
	yaml += "  template:\n    releaseImage: http://mirror.rig.test/crc-" + crcVersion + ".qcow2\n    bundleSSHKeyRef: {name: " + keySecret + "}\n"
	if err := rig.ApplyText(t.Context(), "", yaml); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removePool(t, poolNamespace, pool) })

	ns := ciNamespace(t)
	lease := `{apiVersion: guestcluster.opdev.io/v1alpha1, kind: ClusterLease, metadata: {name: manual},
  spec: {poolRef: {name: ` + pool + `, namespace: ` + poolNamespace + `}, ttl: 1h}}`
	if err := rig.ApplyText(t.Context(), ns, lease); err != nil {
		t.Fatal(err)
	}
	bound := waitLeaseFor(t, ns, "a bound lease", 10*time.Minute, func(l *v1alpha1.ClusterLease) bool { return l.Status.Phase == v1alpha1.LeaseBound })
	checkCRCAccess(t, ns, bound)
	useGuest(t, ns, bound)
	checkNoCanary(t, ns, append(canaries(t, ns, bound), crcCanaries(t, bound)...))
	err = rig.Guest.GuestclusterV1alpha1().ClusterLeases(ns).Delete(t.Context(), bound.Name, metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waitCRCDestroyed(t, *bound.Status.InstanceRef)
}

// serversThatFail: what a mirror can do wrong on the way is told by its kind,
// or overcome; a query, which may be a credential, is told nowhere. All are
// prepared at one time.
func serversThatFail(t *testing.T) {
	t.Parallel()
	canary := "canary" + rand.String(10) // Events of the last run are still there
	signed := "https://mirror.rig.test/pub/openshift-v4/clients/crc/bundles/openshift/%[1]s/crc_libvirt_%[1]s_amd64.crcbundle?X-Signature=" + canary
	tests := map[string]struct {
		version, url, task string
		code               int32
		says               []string
	}{
		"no such bundle":                      {version: "4.97.1", task: "create-golden-volume", code: 10, says: []string{"404", "the mirror has no such bundle"}},
		"a list without the bundle":           {version: "4.97.3", task: "fetch-bundle", code: 10, says: []string{"sha256sum.txt"}},
		"cut at one place again and again":    {version: "4.97.5", task: "fetch-bundle", code: 11, says: []string{"gave up after 6 tries", "cut after"}},
		"redirected to plain http":            {version: "4.97.9", task: "create-golden-volume", code: 10, says: []string{"only https is allowed"}},
		"redirected to itself":                {version: "4.97.13", task: "create-golden-volume", code: 10, says: []string{"more than 5 redirects"}},
		"always 503, with a query in the URL": {version: "4.97.12", url: signed, task: "create-golden-volume", code: 11, says: []string{"gave up after 6 tries", "503"}},
		"cut in the middle, then resumed":     {version: "4.97.4"},
		"slow, with a query in the URL":       {version: "4.97.6", url: signed},
		"every other request is answered 503": {version: "4.97.10"},
	}
	for _, tt := range tests {
		if tt.url != "" {
			tt.url = fmt.Sprintf(tt.url, tt.version)
		}
		makeBundle(t, tt.version, tt.url)
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := preparedBundle(t, tt.version)
			switch {
			case tt.task != "":
				checkFailure(t, b.Status.Failure, tt.task, tt.code, tt.says...)
			case b.Status.Phase != v1alpha1.BundleReady:
				t.Errorf("bundle is %s: %+v", b.Status.Phase, b.Status.Failure)
			}
		})
	}
	checkNoQuery(t, canary)
}

// checkNoQuery reads what is told about bundles: status, Events and logs.
func checkNoQuery(t *testing.T, canary string) {
	t.Helper()
	bundles, err := rig.Guest.GuestclusterV1alpha1().CRCBundles().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	events, err := rig.Kube.CoreV1().Events(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]string{
		"a log of a step":     podLogs(t, guestcluster.BundleNamespace),
		"a log of the system": podLogs(t, guestcluster.SystemNamespace),
	}
	for _, b := range bundles.Items {
		text, err := json.Marshal(b.Status)
		if err != nil {
			t.Fatal(err)
		}
		told["the status of "+b.Name] = string(text)
	}
	for _, e := range events.Items {
		told["an Event of "+e.InvolvedObject.Name] += e.Message
	}
	if !strings.Contains(told["a log of a step"], "mirror.rig.test") {
		t.Error("no log names the mirror: were logs read?")
	}
	for where, text := range told {
		if strings.Contains(text, canary) {
			t.Errorf("%s has the query of a URL", where)
		}
	}
}

func checkFailure(t *testing.T, f *v1alpha1.FailureStatus, task string, code int32, says ...string) {
	t.Helper()
	if f == nil || f.Task != task || f.Step != task || f.ExitCode != code || f.Run == "" {
		t.Fatalf("failure is %+v, want task %s with exit code %d", f, task, code)
	}
	for _, word := range says {
		if !strings.Contains(f.Message, word) {
			t.Errorf("message %q does not say %q", f.Message, word)
		}
	}
}

func makeBundle(t *testing.T, version, url string) {
	t.Helper()
	bundle := &v1alpha1.CRCBundle{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.BundleName(version, "")},
		Spec:       v1alpha1.CRCBundleSpec{Version: version, Arch: v1alpha1.DefaultArch, BundleURL: url},
	}
	if _, err := rig.Guest.GuestclusterV1alpha1().CRCBundles().Create(t.Context(), bundle, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeBundle(t, version) })
}

// preparedBundle waits for the end of a bundle's preparation.
func preparedBundle(t *testing.T, version string) *v1alpha1.CRCBundle {
	t.Helper()
	var b *v1alpha1.CRCBundle
	waitFor(t, "the end of the preparation", func(ctx context.Context) (bool, string) {
		var err error
		if b, err = rig.Guest.GuestclusterV1alpha1().CRCBundles().Get(ctx, v1alpha1.BundleName(version, ""), metav1.GetOptions{}); err != nil {
			return false, err.Error()
		}
		return b.Status.Phase == v1alpha1.BundleFailed || b.Status.Phase == v1alpha1.BundleReady, fmt.Sprintf("%+v", b.Status)
	})
	return b
}

func readyBundle(t *testing.T, version string) {
	t.Helper()
	makeBundle(t, version, "")
	if b := preparedBundle(t, version); b.Status.Phase != v1alpha1.BundleReady {
		t.Fatalf("bundle %s is %s: %+v", version, b.Status.Phase, b.Status.Failure)
	}
}

// mount runs a pod that has a golden volume mounted, until it is told to free it.
func mount(t *testing.T, version string) (free func()) {
	t.Helper()
	yes, no, user := true, false, int64(65532)
	pods := rig.Kube.CoreV1().Pods(guestcluster.BundleNamespace)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "reads-" + strings.ReplaceAll(version, ".", "-")},
		Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &user, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{
				Name: "hang", Image: rig.GuestImage, Command: []string{"kubectl", "proxy", "--port=0"},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
				VolumeMounts:    []corev1.VolumeMount{{Name: "golden", MountPath: "/golden"}},
			}},
			Volumes: []corev1.Volume{{Name: "golden", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: v1alpha1.BundleName(version, "")},
			}}},
		},
	}
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	now := int64(0)
	free = func() {
		err := pods.Delete(context.Background(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}
	t.Cleanup(free)
	waitFor(t, "a pod that mounts the golden volume", func(ctx context.Context) (bool, string) {
		p, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		return err == nil && p.Status.Phase == corev1.PodRunning, fmt.Sprintf("%v, %+v", err, p.Status)
	})
	return free
}

func remove(t *testing.T, i *v1alpha1.ClusterInstance) {
	t.Helper()
	err := rig.Guest.GuestclusterV1alpha1().ClusterInstances(i.Namespace).Delete(t.Context(), i.Name, metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
}
