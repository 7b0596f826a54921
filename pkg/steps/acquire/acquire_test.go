package acquire

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/lessee"
	"opdev.io/guestcluster/pkg/steps/fakeapi"
	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/step"
)

const (
	runUID    = "11111111-2222-3333-4444-555555555555"
	leasePath = "/apis/guestcluster.opdev.io/v1alpha1/namespaces/ci/clusterleases/run-" + runUID
	canary    = "very-secret-key-material"
)

// output is a progress writer that tests may read while the step runs.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) { o.mu.Lock(); defer o.mu.Unlock(); return o.b.Write(p) }
func (o *output) String() string              { o.mu.Lock(); defer o.mu.Unlock(); return o.b.String() }

// bench is a step that runs against a fake API.
type bench struct {
	*testing.T
	api  *fakeapi.Server
	step *Acquirer
	out  *output
	dir  string
	stop context.CancelFunc
	done chan error
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, api: fakeapi.Start(t), out: &output{}, dir: t.TempDir(), done: make(chan error, 1)}
	leases, err := kube.Leases(b.api.Config(), "ci")
	if err != nil {
		t.Fatal(err)
	}
	secrets, err := kube.NewSecrets(b.api.Config(), "ci")
	if err != nil {
		t.Fatal(err)
	}
	file := func(name string) string { return filepath.Join(b.dir, name) }
	b.step = &Acquirer{
		Options: Options{
			Order: lessee.Order{
				Holder: lessee.Holder{Namespace: "ci", PipelineRun: "build-1", PipelineRunUID: runUID, RunUID: "task-uid"},
				Pool:   "crc-pool", TTL: "2h", AcquireTimeout: time.Minute,
			},
			Paths: ResultPaths{file("lease"), file("kubeconfig-secret"), file("api-endpoint"), file("ocp-version"), file("topology"), file("expires-at")},
		},
		Leases: leases, Secrets: secrets, Progress: b.out, Grace: time.Minute, HintAfter: time.Minute,
		Pause: wait.Backoff{Duration: 5 * time.Millisecond, Factor: 1, Steps: 1},
	}
	return b
}

func (b *bench) start() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	b.stop = cancel
	b.Cleanup(cancel)
	go func() { b.done <- b.step.Run(ctx) }()
}

// ends waits for the step's end and checks its exit code and error text.
func (b *bench) ends(code int, text string) {
	b.Helper()
	select {
	case err := <-b.done:
		if got := step.ExitCode(err); got != code {
			b.Fatalf("exit code %d, want %d: %v\n%s", got, code, err, b.out)
		}
		if err != nil && !strings.Contains(err.Error(), text) {
			b.Fatalf("error %q does not contain %q", err, text)
		}
	case <-time.After(20 * time.Second):
		b.Fatalf("the step does not end\n%s", b.out)
	}
}

func (b *bench) eventually(what string, ok func() bool) {
	b.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("never: %s\n%s", what, b.out)
		}
	}
}

func (b *bench) lease() *v1alpha1.ClusterLease {
	lease := &v1alpha1.ClusterLease{}
	if !b.api.Get(leasePath, lease) {
		return nil
	}
	return lease
}

// update plays the controller, once the lease is there.
func (b *bench) update(change func(*v1alpha1.ClusterLease)) {
	b.Helper()
	b.eventually("the lease exists", func() bool { return b.lease() != nil })
	lease := b.lease()
	change(lease)
	b.api.Put(leasePath, lease)
}

// prints waits for a progress line.
func (b *bench) prints(text string) {
	b.Helper()
	b.eventually("output "+text, func() bool { return strings.Contains(b.out.String(), text) })
}

func (b *bench) result(name string) string {
	raw, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		return ""
	}
	return string(raw)
}

func bind(lease *v1alpha1.ClusterLease) {
	lease.Status.InstanceRef = &v1alpha1.ObjectReference{Namespace: "clusters", Name: "crc-pool-0", UID: "i"}
	ttl := lease.Spec.TTL
	lease.MarkBound(v1alpha1.BoundFacts{
		Secret: lease.AccessSecretName(), OCPVersion: "4.19.3", Topology: "crc", APIEndpoint: "https://a.example.com:443", TTL: ttl,
	}, metav1.NewTime(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)))
}

func waits(reason v1alpha1.Reason, message string, position int32) func(*v1alpha1.ClusterLease) {
	return func(l *v1alpha1.ClusterLease) { l.MarkWaiting(reason, message, position, metav1.Now()) }
}

func ended(reason v1alpha1.Reason, message string) func(*v1alpha1.ClusterLease) {
	return func(l *v1alpha1.ClusterLease) { l.MarkEnded(reason, message, metav1.Now()) }
}

// existing is the lease as an earlier attempt of the same run left it.
func (b *bench) existing(change func(*v1alpha1.ClusterLease)) *v1alpha1.ClusterLease {
	lease := b.step.Lease()
	lease.UID = "earlier"
	change(lease)
	b.api.Put(leasePath, lease)
	return lease
}

func TestTakesALeaseAndWaits(t *testing.T) {
	b := newBench(t)
	b.start()
	b.update(waits(v1alpha1.ReasonWaitingForCapacity, "3 of 3 clusters are leased", 2))
	b.prints("waiting: WaitingForCapacity (position 2): 3 of 3 clusters are leased")
	b.update(waits(v1alpha1.ReasonWaitingForCapacity, "another text, same place", 2))
	b.update(waits(v1alpha1.ReasonAtCapacity, "no slot is free", 1))
	b.prints("waiting: AtCapacity (position 1): no slot is free")
	b.update(bind)
	b.ends(0, "")
	spec := b.lease().Spec
	if spec.HolderRef.Name != "build-1" || string(spec.HolderRef.UID) != runUID || spec.TTL.Duration.Duration != 2*time.Hour ||
		spec.AcquireTimeout.Duration.Duration != time.Minute || spec.PoolRef.Name != "crc-pool" {
		t.Errorf("lease spec %+v", spec)
	}
	for name, want := range map[string]string{
		"lease": "run-" + runUID, "kubeconfig-secret": "run-" + runUID + "-access", "api-endpoint": "https://a.example.com:443",
		"ocp-version": "4.19.3", "topology": "crc", "expires-at": "2030-01-01T02:00:00Z",
	} {
		if got := b.result(name); got != want {
			t.Errorf("result %s = %q, want %q", name, got, want)
		}
	}
	if n := strings.Count(b.out.String(), "position 2"); n != 1 {
		t.Errorf("an unchanged position was printed %d times", n)
	}
	for _, call := range b.api.Calls() {
		if strings.Contains(call, "/secrets/") {
			t.Errorf("read a Secret without a workspace: %s", call)
		}
	}
}

func TestEarlierAttempts(t *testing.T) {
	for name, tc := range map[string]struct {
		left   func(*v1alpha1.ClusterLease)
		code   int
		text   string
		anew   bool
		bindIt bool
	}{
		"pending is waited for": {left: waits(v1alpha1.ReasonAtCapacity, "", 1), bindIt: true},
		"bound is taken":        {left: bind},
		"failed before it was bound is made anew": {
			left: ended(v1alpha1.ReasonAcquireTimeout, "60m are over"), anew: true, bindIt: true},
		"released is refused": {
			left: func(l *v1alpha1.ClusterLease) { bind(l); ended(v1alpha1.ReasonReleased, "by its user")(l) },
			code: step.ExitUser, text: "already released"},
		"releasing is refused": {
			left: func(l *v1alpha1.ClusterLease) { bind(l); l.MarkReleasing(v1alpha1.ReasonExpired, "ttl is over") },
			code: step.ExitUser, text: "Expired: ttl is over"},
		"told to release is refused": {
			left: func(l *v1alpha1.ClusterLease) { l.Spec.Release = true }, code: step.ExitUser, text: "already released"},
		"a lost instance is not replaced behind the user's back": {
			left: func(l *v1alpha1.ClusterLease) { bind(l); ended(v1alpha1.ReasonInstanceLost, "the VM is gone")(l) },
			code: step.ExitInfra, text: "InstanceLost"},
		"another holder's is refused": {
			left: func(l *v1alpha1.ClusterLease) { l.Spec.HolderRef.UID = "other"; bind(l) },
			code: step.ExitUser, text: "another holder"},
		"one without a holder is refused": {
			left: func(l *v1alpha1.ClusterLease) { l.Spec.HolderRef = nil; bind(l) },
			code: step.ExitUser, text: "another holder"},
		"one on another pool asks for a slot": {
			left: func(l *v1alpha1.ClusterLease) { l.Spec.PoolRef.Name = "other" }, code: step.ExitUser, text: "its own slot"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.existing(tc.left)
			b.start()
			if tc.bindIt {
				b.eventually("right lease", func() bool { l := b.lease(); return l != nil && (string(l.UID) != "earlier") == tc.anew })
				b.update(bind)
			}
			b.ends(tc.code, tc.text)
			if got := string(b.lease().UID) != "earlier"; got != tc.anew {
				t.Errorf("made anew: %v, want %v", got, tc.anew)
			}
		})
	}
}

func TestWaitsForADyingLeaseAndMakesAnother(t *testing.T) {
	b := newBench(t)
	b.existing(func(l *v1alpha1.ClusterLease) { now := metav1.Now(); l.DeletionTimestamp = &now })
	b.start()
	b.prints("being deleted")
	b.api.Remove(leasePath)
	b.update(bind)
	b.ends(0, "")
}

func TestFailsAtOnceAndRemovesItsLease(t *testing.T) {
	for _, reason := range []v1alpha1.Reason{v1alpha1.ReasonPoolNotFound, v1alpha1.ReasonNamespaceNotAllowed} {
		t.Run(string(reason), func(t *testing.T) {
			b := newBench(t)
			b.start()
			b.update(waits(reason, "what to do about it", 0))
			b.ends(step.ExitUser, string(reason)+": what to do about it")
			if b.lease() != nil {
				t.Error("the lease is still there")
			}
		})
	}
}

func TestEndsWhileWaiting(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1alpha1.ClusterLease)
		code   int
		text   string
	}{
		"acquire timeout repeats what to do": {ended(v1alpha1.ReasonAcquireTimeout, "1m is over"), step.ExitTimeout, "AccessMissing: run this: kubectl"},
		"holder done":                        {ended(v1alpha1.ReasonHolderDone, "run ended"), step.ExitInfra, "HolderDone"},
		"released by a person":               {ended(v1alpha1.ReasonReleased, "by its user"), step.ExitUser, "already released"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.start()
			b.update(waits(v1alpha1.ReasonAccessMissing, "run this: kubectl", 0))
			b.prints("AccessMissing: run this: kubectl")
			b.update(tc.change)
			b.ends(tc.code, tc.text)
			if b.lease() == nil {
				t.Error("an ended lease stays for reading")
			}
		})
	}
}

func TestSignalRemovesAWaitingLease(t *testing.T) {
	b := newBench(t)
	b.start()
	b.update(waits(v1alpha1.ReasonAtCapacity, "no slot", 1))
	b.prints("AtCapacity")
	b.stop()
	b.ends(step.ExitInterrupted, "signal; lease run-"+runUID+" waited for: AtCapacity: no slot")
	if b.lease() != nil {
		t.Error("the lease is still there")
	}
}

func TestDeadlineRemovesAWaitingLease(t *testing.T) {
	b := newBench(t)
	b.step.AcquireTimeout, b.step.Grace = 300*time.Millisecond, 0
	b.start()
	b.ends(step.ExitTimeout, "deadline")
	if b.lease() != nil {
		t.Error("the lease is still there")
	}
}

func TestSignalLeavesABoundLease(t *testing.T) {
	b := newBench(t)
	b.existing(bind)
	b.step.abandon()
	if b.lease() == nil {
		t.Error("a bound lease was removed")
	}
}

func TestSignalLeavesAForeignLease(t *testing.T) {
	b := newBench(t)
	b.existing(func(l *v1alpha1.ClusterLease) { l.Spec.HolderRef.UID = "other" })
	b.step.abandon()
	if b.lease() == nil {
		t.Error("a foreign lease was removed")
	}
}

func TestSurvivesCutWatchesAndOutages(t *testing.T) {
	b := newBench(t)
	b.start()
	b.update(waits(v1alpha1.ReasonAtCapacity, "no slot", 1))
	b.prints("AtCapacity")
	b.api.Fault(func(*http.Request) int { return http.StatusServiceUnavailable })
	b.api.CutWatches()
	b.prints("trying again")
	b.update(bind)
	b.api.Fault(nil)
	b.ends(0, "")
}

func TestAnExpiredWatchIsOpenedAnew(t *testing.T) {
	b := newBench(t)
	var once sync.Once
	b.api.Fault(func(r *http.Request) int {
		code := 0
		if r.URL.Query().Get("watch") != "" {
			once.Do(func() { code = http.StatusGone })
		}
		return code
	})
	b.start()
	b.update(bind)
	b.ends(0, "")
}

func TestALeaseDeletedTwiceEndsTheWait(t *testing.T) {
	b := newBench(t)
	b.start()
	b.update(waits(v1alpha1.ReasonAtCapacity, "no slot", 1))
	b.prints("AtCapacity")
	first := b.lease().UID
	b.api.Remove(leasePath)
	b.eventually("made anew", func() bool { l := b.lease(); return l != nil && l.UID != first })
	b.update(waits(v1alpha1.ReasonAtCapacity, "no slot", 3))
	b.prints("position 3")
	b.api.Remove(leasePath)
	b.ends(step.ExitUser, "deleted by somebody")
}

func TestMissingRightsEndAtOnce(t *testing.T) {
	b := newBench(t)
	b.api.Fault(func(*http.Request) int { return http.StatusForbidden })
	b.start()
	b.ends(step.ExitUser, "kubectl create rolebinding")
}

func TestDoubtsTheControllerOnlyWhenNothingHappens(t *testing.T) {
	b := newBench(t)
	b.step.HintAfter = 20 * time.Millisecond
	b.start()
	b.prints("controller may be down")
	b.update(bind)
	b.ends(0, "")
}

func TestBareTaskRunNeedsATTL(t *testing.T) {
	b := newBench(t)
	b.step.Holder.PipelineRun, b.step.Holder.PipelineRunUID = "", ""
	b.step.TTL = ""
	b.start()
	b.ends(step.ExitUser, "give a ttl")
	if calls := b.api.Calls(); len(calls) > 0 {
		t.Errorf("asked the API: %v", calls)
	}
}

func TestBareTaskRunHasNoHolder(t *testing.T) {
	b := newBench(t)
	b.step.Holder.PipelineRun, b.step.Holder.PipelineRunUID = "", ""
	lease := b.step.Lease()
	if lease.Name != "run-task-uid" || lease.Spec.HolderRef != nil || !b.step.Holder.Holds(lease) {
		t.Errorf("lease %s, holder %v", lease.Name, lease.Spec.HolderRef)
	}
}

func TestWorkspaceGetsTheKubeconfig(t *testing.T) {
	b := newBench(t)
	b.step.WriteKubeconfig, b.step.KubeconfigDir = true, b.dir
	b.api.Put("/api/v1/namespaces/ci/secrets/run-"+runUID+"-access", &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "run-" + runUID + "-access"},
		Data:       map[string][]byte{guestcluster.KubeconfigKey: []byte(canary)},
	})
	path := filepath.Join(b.dir, "kubeconfig")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.existing(bind)
	b.start()
	b.ends(0, "")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 || b.result("kubeconfig") != canary {
		t.Errorf("kubeconfig: %v, %v, %q", err, info, b.result("kubeconfig"))
	}
	if strings.Contains(b.out.String(), canary) {
		t.Error("the kubeconfig was printed")
	}
}

// All results of a Task share the termination message of 4 KiB with Tekton's
// own data: ours stay below 1 KiB whatever the status says.
func TestResultsAreSmall(t *testing.T) {
	b := newBench(t)
	b.step.Holder.Slot = strings.Repeat("s", 20)
	lease := b.step.Lease()
	bind(lease)
	lease.Status.OCPVersion, lease.Status.Topology = strings.Repeat("v", 63), strings.Repeat("t", 16)
	lease.Status.APIEndpoint = "https://" + strings.Repeat("h", 253) + ":443"
	size := 0
	for _, r := range b.step.results(lease) {
		size += len(r.Value) + len(`{"key":"","value":"","type":1},`) + len(filepath.Base(r.Path))
	}
	if size > 1024 {
		t.Errorf("results take %d bytes", size)
	}
}
