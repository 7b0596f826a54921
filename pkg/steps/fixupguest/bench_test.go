package fixupguest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"opdev.io/guestcluster/pkg/steps/fakeapi"
	"opdev.io/guestcluster/pkg/steps/guest/fakeguest"
	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/step"
)

const (
	host       = "gc-demo.apps.example.com"
	secretPath = "/api/v1/namespaces/clusters/secrets/demo-kubeconfig"
)

// bench is the step between a fake management API and a fake guest.
type bench struct {
	*testing.T
	api   *fakeapi.Server
	guest *fakeguest.Guest
	dir   string
	out   *buffer
	limit time.Duration
	// handshake bounds one SSH handshake.
	handshake time.Duration
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, api: fakeapi.Start(t), guest: fakeguest.Start(t), dir: t.TempDir(), out: &buffer{}, limit: 5 * time.Second, handshake: 2 * time.Second}
	fakeguest.WriteIdentity(t, b.dir, host, b.guest.BootKey)
	b.api.Put(secretPath, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "demo-kubeconfig", Namespace: "clusters", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "guestcluster.opdev.io/v1alpha1", Kind: "ClusterInstance", Name: "demo", UID: "u"},
	}}})
	return b
}

// fixer is a fresh process of the step.
func (b *bench) fixer() *Fixer {
	b.Helper()
	secrets, err := kube.NewSecrets(b.api.Config(), "clusters")
	if err != nil {
		b.Fatal(err)
	}
	return &Fixer{
		Options: Options{
			Instance: "demo", Namespace: "clusters", Name: "demo", IdentityDir: b.dir, KubeconfigSecret: "demo-kubeconfig", APIHost: host, Timeout: 30 * time.Second,
		},
		Locator: b.guest, Secrets: secrets, Progress: b.out, Dial: b.guest.Dial, Handshake: b.handshake, Now: time.Now,
		Pause: wait.Backoff{Duration: 5 * time.Millisecond, Steps: 1}, Poll: 20 * time.Millisecond, Settle: 2 * time.Millisecond, HashCost: bcrypt.MinCost, Limit: func(string) time.Duration { return b.limit },
	}
}

// run wants an exit code and, with an error, all of the texts in its message.
func (b *bench) run(code int, texts ...string) {
	b.Helper()
	b.check(b.fixer().Run(b.Context()), code, texts...)
}

func (b *bench) check(err error, code int, texts ...string) {
	b.Helper()
	said := fmt.Sprint(err)
	if step.ExitCode(err) != code {
		b.Fatalf("exit code %d, want %d: %v\n%s", step.ExitCode(err), code, err, b.out)
	}
	for _, text := range texts {
		if !strings.Contains(said, text) {
			b.Errorf("the error does not say %q: %v", text, err)
		}
	}
	for _, secret := range []string{"PRIVATE KEY", fakeguest.KubeadminPassword, "Q2FuYXJ5UHVsbFNlY3JldA", "$2a$"} {
		if strings.Contains(b.out.String()+said, secret) {
			b.Errorf("the step said %q", secret)
		}
	}
}

// until runs the step and cuts its context at the first line of progress with
// a text: that is where the pod was killed.
func (b *bench) until(text string) error {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	f := b.fixer()
	f.Progress = &cutter{buffer: b.out, text: text, cut: cancel}
	return f.Run(ctx)
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

type cutter struct {
	*buffer
	text string
	cut  func()
}

func (c *cutter) Write(p []byte) (int, error) {
	if strings.Contains(string(p), c.text) {
		c.cut()
	}
	return c.buffer.Write(p)
}

// killAt runs the step and cuts its context when the guest hears of its nth command.
func (b *bench) killAt(n int) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var heard atomic.Int32
	b.guest.OnCommand = func(string) {
		if heard.Add(1) == int32(n) {
			cancel()
		}
	}
	if err := b.fixer().Run(ctx); err != nil && step.ExitCode(err) != step.ExitInterrupted {
		b.Fatalf("killed: %v", err)
	}
	b.guest.OnCommand = nil
}
