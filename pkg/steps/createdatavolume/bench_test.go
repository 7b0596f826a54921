package createdatavolume

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"opdev.io/guestcluster/pkg/steps/fakeapi"
	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/step"
	"opdev.io/guestcluster/pkg/steps/virt"
)

const (
	name       = "gc-crc-pool-0-0123456789abcdef"
	volumePath = "/apis/cdi.kubevirt.io/v1beta1/namespaces/clusters/datavolumes/" + name
	claimPath  = "/api/v1/namespaces/clusters/persistentvolumeclaims/" + name
	eventsPath = "/api/v1/namespaces/clusters/events"
	golden     = "crc-4.19.3-amd64"
)

// frame is what CDI does before the step looks again: the clock goes on by
// wait, 15 seconds if not told, and the DataVolume changes.
type frame struct {
	wait time.Duration
	// volume is a merge patch in YAML.
	volume string
	// warning is "Reason: message".
	warning string
	do      func(*bench)
}

// bench is the step between a fake API and CDI as a script.
type bench struct {
	*testing.T
	api    *fakeapi.Server
	step   *Creator
	out    *bytes.Buffer
	now    time.Time
	script []frame
	// deny answers the creation with 403 and this message.
	deny string
	// kill ends the pod at the request of that number, which is still served.
	kill int
	dies func()
	// mu guards all of it: a killed pod's last request is served while the
	// next pod begins.
	mu sync.Mutex
}

func newBench(t *testing.T, script ...frame) *bench {
	b := &bench{T: t, api: fakeapi.Start(t), out: &bytes.Buffer{}, script: script, now: time.Date(2030, 1, 1, 0, 1, 0, 0, time.UTC)}
	b.api.Before(b.before)
	b.restart()
	return b
}

// restart is a new pod of the same TaskRun.
func (b *bench) restart() {
	clients, err := virt.NewClients(b.api.Config(), "clusters")
	if err != nil {
		b.Fatal(err)
	}
	sources, err := kube.NewObjects[corev1.PersistentVolumeClaim](b.api.Config(), virt.ClaimsResource, "guestcluster-bundles")
	if err != nil {
		b.Fatal(err)
	}
	b.step = &Creator{Options: options(), Clients: clients, Sources: sources, Progress: b.out, Pause: wait.Backoff{Duration: time.Millisecond, Steps: 1},
		Now: b.clock}
}

func options() Options {
	return Options{Instance: "crc-pool-0", Namespace: "clusters", InstanceUID: "instance-uid", Name: name,
		SourceNamespace: "guestcluster-bundles", SourceVolume: golden, Size: "80Gi", Timeout: time.Hour}
}

func (b *bench) clock() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *bench) before(w http.ResponseWriter, r *http.Request) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.kill--; b.kill == 0 {
		b.dies()
	}
	if r.Method == http.MethodPost && b.deny != "" {
		fakeapi.Refuse(w, http.StatusForbidden, b.deny)
		return true
	}
	if r.Method == http.MethodGet && r.URL.Path == volumePath && b.exists() && len(b.script) > 0 {
		next := b.script[0]
		b.script = b.script[1:]
		b.play(next)
	}
	return false
}

func (b *bench) exists() bool { return b.api.Get(volumePath, &fakeapi.Object{}) }

func (b *bench) play(f frame) {
	if f.wait == 0 {
		f.wait = 15 * time.Second
	}
	b.now = b.now.Add(f.wait)
	if f.volume != "" {
		b.api.Merge(volumePath, f.volume)
	}
	if reason, message, ok := strings.Cut(f.warning, ": "); ok {
		b.api.Put(fmt.Sprintf("%s/%s.%d", eventsPath, name, b.now.Unix()), &corev1.Event{
			Type: corev1.EventTypeWarning, Reason: reason, Message: message, LastTimestamp: metav1.NewTime(b.now),
			InvolvedObject: corev1.ObjectReference{Kind: "PersistentVolumeClaim", Name: name},
		})
	}
	if f.do != nil {
		f.do(b)
	}
}

// put stores a DataVolume, as YAML over what the step would make.
func (b *bench) put(patch string) {
	o := options()
	b.api.Put(volumePath, o.Build())
	b.api.Merge(volumePath, patch)
}

// expect runs the step and wants an exit code, and a text in the error.
func (b *bench) expect(code int, text string) {
	b.Helper()
	b.judge(b.step.Run(context.Background()), code, text)
}

// expectTimeout lets the deadline come when the script is long over.
func (b *bench) expectTimeout(text string) {
	b.Helper()
	ctx := &expiring{Context: context.Background(), over: make(chan struct{})}
	b.mu.Lock()
	b.kill, b.dies = 25, func() { close(ctx.over) }
	b.mu.Unlock()
	b.judge(b.step.Run(ctx), step.ExitTimeout, text)
}

func (b *bench) judge(err error, code int, text string) {
	b.Helper()
	if step.ExitCode(err) != code || (err != nil && !strings.Contains(err.Error(), text)) {
		b.Fatalf("exit code %d, want %d with %q: %v\n%s", step.ExitCode(err), code, text, err, b.out)
	}
}

// killed runs the step in a pod that is killed at the n-th request, and says
// whether it was.
func (b *bench) killed(n int) bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.mu.Lock()
	b.kill, b.dies = n, cancel
	b.mu.Unlock()
	return b.step.Run(ctx) != nil
}

func (b *bench) posts() int {
	n := 0
	for _, call := range b.api.Calls() {
		if strings.HasPrefix(call, "POST ") {
			n++
		}
	}
	return n
}

// expiring is a context whose deadline comes when over is closed.
type expiring struct {
	context.Context
	over chan struct{}
}

func (e *expiring) Done() <-chan struct{} { return e.over }

func (e *expiring) Err() error {
	select {
	case <-e.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
