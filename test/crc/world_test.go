package crc_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"opdev.io/guestcluster/pkg/steps/fakeapi"
	"opdev.io/guestcluster/pkg/steps/fixupguest"
	"opdev.io/guestcluster/pkg/steps/gather"
	step "opdev.io/guestcluster/pkg/steps/guest"
	"opdev.io/guestcluster/pkg/steps/guest/fakeguest"
	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/test/rig/guest"
)

const (
	apiHost    = "gc-demo.apps.example.com"
	secretPath = "/api/v1/namespaces/clusters/secrets/demo-kubeconfig"
)

// world is one guest with its own disk, identity and kubeconfig Secret.
type world struct {
	*testing.T
	parts guest.Parts
	guest *guest.Guest
	disk  string
	api   *fakeapi.Server
	dir   string
	uid   string
	out   *buffer
}

// newWorld boots a copy of the pristine disk with faults.
func newWorld(t *testing.T, faults ...string) *world {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("run as root: the guest has mounts and namespaces of its own")
	}
	w := &world{T: t, api: fakeapi.Start(t), dir: t.TempDir(), uid: "vmi-1", out: &buffer{}}
	var err error
	if w.parts, err = guest.Build(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	boot, err := os.ReadFile(w.parts.SSHPrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	fakeguest.WriteIdentity(t, w.dir, apiHost, boot)
	w.api.Put(secretPath, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "demo-kubeconfig", Namespace: "clusters", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "guestcluster.opdev.io/v1alpha1", Kind: "ClusterInstance", Name: "demo", UID: "u"},
	}}})
	w.disk = filepath.Join(t.TempDir(), "disk.img")
	if err := guest.Copy(t.Context(), w.disk, w.parts.Disk); err != nil {
		t.Fatal(err)
	}
	w.start(faults)
	return w
}

// restart stops the guest and starts it from its disk with other faults.
func (w *world) restart(faults ...string) {
	w.Helper()
	if err := w.guest.Stop(); err != nil {
		w.Fatal(err)
	}
	w.start(faults)
}

func (w *world) start(faults []string) {
	w.Helper()
	started, err := guest.Start(context.WithoutCancel(w.Context()), guest.Options{Disk: w.disk, Name: "guest", Faults: faults})
	if err != nil {
		w.Fatal(err)
	}
	w.guest = started
	w.Cleanup(func() {
		if err := started.Stop(); err != nil {
			w.Error(err)
		}
		if w.Failed() {
			w.Logf("step:\n%s\nguest:\n%s", w.out, started.Console())
		}
	})
}

// Locate makes the world the machine's locator.
func (w *world) Locate(context.Context) (step.Machine, error) {
	return step.Machine{UID: w.uid, Address: w.guest.Address}, nil
}

// fixer is a fresh process of the step.
func (w *world) fixer(timeout time.Duration) *fixupguest.Fixer {
	w.Helper()
	secrets, err := kube.NewSecrets(w.api.Config(), "clusters")
	if err != nil {
		w.Fatal(err)
	}
	return &fixupguest.Fixer{
		Options: fixupguest.Options{
			Instance: "demo", Namespace: "clusters", Name: "demo", IdentityDir: w.dir, KubeconfigSecret: "demo-kubeconfig", APIHost: apiHost, Timeout: timeout,
		},
		Locator: w, Secrets: secrets, Progress: w.out, Dial: (&net.Dialer{}).DialContext, Handshake: 2 * time.Second, Now: time.Now,
		Pause: wait.Backoff{Duration: 100 * time.Millisecond, Steps: 1}, Poll: 200 * time.Millisecond, Settle: 300 * time.Millisecond,
	}
}

// seconds lists how long each phase took, as the step said.
func (w *world) seconds() string {
	var list []string
	for line := range strings.Lines(w.out.String()) {
		if strings.Contains(line, ": done in ") {
			list = append(list, strings.TrimSpace(line))
		}
	}
	return strings.Join(list, "\n")
}

// run runs the step and wants its exit code and a part of its message.
func (w *world) run(f *fixupguest.Fixer, code int, text string) {
	w.Helper()
	began := time.Now()
	err := f.Run(w.Context())
	w.Logf("ran for %.1f s", time.Since(began).Seconds())
	if got := exitCode(err); got != code || err != nil && !strings.Contains(err.Error(), text) {
		w.Fatalf("exit code %d, want %d with %q: %v", got, code, text, err)
	}
	for _, secret := range []string{"PRIVATE KEY", fakeguest.KubeadminPassword, "Q2FuYXJ5UHVsbFNlY3JldA", "$2"} {
		if said := w.out.String() + fmt.Sprint(err); strings.Contains(said, secret) {
			w.Errorf("the step said %q", secret)
		}
	}
}

// gather runs the step of that name and returns what it kept.
func (w *world) gather() map[string]string {
	w.Helper()
	w.api.Put("/apis/kubevirt.io/v1/namespaces/clusters/virtualmachineinstances/demo", fakeapi.Object{
		"metadata": fakeapi.Object{"uid": w.uid},
		"status":   fakeapi.Object{"phase": "Running", "interfaces": []fakeapi.Object{{"ipAddress": w.guest.Address}}},
	})
	g := &gather.Gatherer{
		Options: gather.Options{
			Instance: "demo", Namespace: "clusters", InstanceUID: "u", Name: "demo", IdentityDir: w.dir, KubeconfigSecret: "demo-kubeconfig",
			ConfigMap: "demo-gather", Timeout: time.Minute, ConfigMapPath: filepath.Join(w.TempDir(), "configmap"),
		},
		Config: w.api.Config(), Progress: w.out, Dial: (&net.Dialer{}).DialContext, Part: 15 * time.Second,
	}
	if err := g.Run(w.Context()); err != nil {
		w.Fatal(err)
	}
	var kept corev1.ConfigMap
	w.api.Get("/api/v1/namespaces/clusters/configmaps/demo-gather", &kept)
	return kept.Data
}

// buffer is written by the step's goroutines.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
