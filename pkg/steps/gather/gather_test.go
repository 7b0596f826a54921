package gather

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/steps/fakeapi"
	"opdev.io/guestcluster/pkg/steps/guest/fakeguest"
	"opdev.io/guestcluster/pkg/steps/step"
)

const (
	mapPath = "/api/v1/namespaces/clusters/configmaps/gc-demo-gather"
	canary  = "Q2FuYXJ5"
)

// bench is the step between a fake management API and a fake guest.
type bench struct {
	*testing.T
	api   *fakeapi.Server
	guest *fakeguest.Guest
	step  *Gatherer
	out   *bytes.Buffer
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, api: fakeapi.Start(t), guest: fakeguest.Start(t), out: &bytes.Buffer{}}
	dir := t.TempDir()
	fakeguest.WriteIdentity(t, dir, "gc-demo.apps.example.com", b.guest.BootKey)
	b.step = &Gatherer{
		Options: Options{
			Instance: "demo", Namespace: "clusters", InstanceUID: "uid-1", Name: "gc-demo", IdentityDir: dir, KubeconfigSecret: "demo-kubeconfig",
			ConfigMap: "gc-demo-gather", Timeout: 20 * time.Second, ConfigMapPath: filepath.Join(dir, "configmap"),
		},
		Config: b.api.Config(), Progress: b.out, Dial: b.guest.Dial, Part: 2 * time.Second,
	}
	b.objects()
	return b
}

func (b *bench) objects() {
	owner := metav1.OwnerReference{APIVersion: "guestcluster.opdev.io/v1alpha1", Kind: "ClusterInstance", Name: "demo", UID: "uid-1"}
	b.api.Put("/api/v1/namespaces/clusters/secrets/demo-kubeconfig", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "demo-kubeconfig", OwnerReferences: []metav1.OwnerReference{owner}}})
	b.api.Put("/apis/kubevirt.io/v1/namespaces/clusters/virtualmachines/gc-demo", fakeapi.Object{"status": fakeapi.Object{"printableStatus": "Running"}})
	b.api.Put("/apis/kubevirt.io/v1/namespaces/clusters/virtualmachineinstances/gc-demo", fakeapi.Object{"status": fakeapi.Object{
		"phase": "Running", "interfaces": []fakeapi.Object{{"ipAddress": fakeguest.PodAddress}},
	}})
	b.api.Put("/apis/cdi.kubevirt.io/v1beta1/namespaces/clusters/datavolumes/gc-demo", fakeapi.Object{"status": fakeapi.Object{"phase": "Succeeded"}})
	b.api.Put("/api/v1/namespaces/clusters/events/e", &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "clusters"}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "virt-launcher-gc-demo-x"}, Reason: "Pulled", Message: "password=" + canary,
	})
}

func (b *bench) gathered() map[string]string {
	b.Helper()
	if err := b.step.Run(context.Background()); err != nil {
		b.Fatal(err)
	}
	var got corev1.ConfigMap
	if !b.api.Get(mapPath, &got) {
		b.Fatal("no ConfigMap")
	}
	if len(got.OwnerReferences) != 1 || got.OwnerReferences[0].UID != "uid-1" {
		b.Errorf("owners %v", got.OwnerReferences)
	}
	if raw, err := os.ReadFile(b.step.ConfigMapPath); err != nil || string(raw) != "gc-demo-gather" {
		b.Errorf("result %q, %v", raw, err)
	}
	size := 0
	for key, text := range got.Data {
		size += len(key) + len(text)
		if strings.Contains(text, canary) {
			b.Errorf("%s has a credential: %q", key, text)
		}
	}
	if size > maxTotal {
		b.Errorf("%d bytes", size)
	}
	if strings.Contains(b.out.String(), canary) {
		b.Errorf("the step said a credential: %s", b.out)
	}
	return got.Data
}

func (b *bench) holds(data map[string]string, key, text string) {
	b.Helper()
	if !strings.Contains(data[key], text) {
		b.Errorf("%s: %q, want %q", key, data[key], text)
	}
}

func TestGathersWhatThereIs(t *testing.T) {
	b := newBench(t)
	b.guest.StartKubelet()
	data := b.gathered()
	b.holds(data, "virtualmachine.json", `"printableStatus":"Running"`)
	b.holds(data, "virtualmachineinstance.json", fakeguest.PodAddress)
	b.holds(data, "datavolume.json", "Succeeded")
	b.holds(data, "events.txt", "Pulled: password=[redacted]")
	b.holds(data, "journal-kubelet.txt", "Accepted publickey for core")
	b.holds(data, "clusteroperators.txt", "authentication Progressing=True")
	b.holds(data, "certificaterequests.txt", "csr-1 kubernetes.io/kube-apiserver-client-kubelet by system:serviceaccount:openshift-machine-config-operator:node-bootstrapper")
}

func TestAGuestThatIsSilentLeavesTheVM(t *testing.T) {
	for name, silence := range map[string]func(*bench){
		"it refuses":  func(b *bench) { b.guest.Refuse = true },
		"it hangs":    func(b *bench) { b.guest.Hang = true; b.step.Part = 100 * time.Millisecond },
		"no identity": func(b *bench) { b.step.IdentityDir = b.TempDir() },
		"nothing answers": func(b *bench) {
			b.step.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no route") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			silence(b)
			data := b.gathered()
			b.holds(data, "datavolume.json", "Succeeded")
			b.holds(data, "journal-kubelet.txt", "not gathered: ")
			b.holds(data, "clusteroperators.txt", "not gathered: ")
		})
	}
}

func TestNothingAtAllIsWrittenDownToo(t *testing.T) {
	b := newBench(t)
	for _, path := range []string{"kubevirt.io/v1/namespaces/clusters/virtualmachines", "kubevirt.io/v1/namespaces/clusters/virtualmachineinstances", "cdi.kubevirt.io/v1beta1/namespaces/clusters/datavolumes"} {
		b.api.Remove("/apis/" + path + "/gc-demo")
	}
	b.holds(b.gathered(), "virtualmachine.json", "not gathered: ")
}

func TestASecondRunReplacesTheFirst(t *testing.T) {
	b := newBench(t)
	b.guest.Refuse = true
	b.gathered()
	b.guest.Refuse = false
	b.holds(b.gathered(), "journal-kubelet.txt", "Accepted publickey")
}

// The instance's Role allows no more than to fill what the controller made.
func TestFillsWhatTheControllerMade(t *testing.T) {
	b := newBench(t)
	i := v1alpha1.ClusterInstance{ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: "clusters", UID: "uid-1"}}
	b.api.Put(mapPath, &corev1.ConfigMap{ObjectMeta: i.ChildMeta("gc-demo-gather")})
	b.api.Fault(func(r *http.Request) int {
		if r.Method == http.MethodPost {
			return http.StatusForbidden
		}
		return 0
	})
	b.holds(b.gathered(), "datavolume.json", "Succeeded")
}

func TestAConfigMapOfAnotherIsNotWritten(t *testing.T) {
	b := newBench(t)
	b.api.Put(mapPath, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "gc-demo-gather"}})
	if err := b.step.Run(context.Background()); step.ExitCode(err) != step.ExitUser || !strings.Contains(err.Error(), "does not belong to ClusterInstance demo") {
		t.Errorf("%v", err)
	}
}

func TestTextsAreBoundedAfterTheirCredentialsAreGone(t *testing.T) {
	key := "-----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat(canary+"\n", 50) + "-----END RSA PRIVATE KEY-----\n"
	for name, newest := range map[string]bool{"the start": false, "the end": true} {
		text := clean(strings.Repeat("é", 300)+key+strings.Repeat("é", 300), 601, newest)
		if len(text) > 601 || strings.Contains(text, canary) || !strings.Contains(text, cutMark) {
			t.Errorf("%s: %d bytes: %q", name, len(text), text)
		}
	}
}
