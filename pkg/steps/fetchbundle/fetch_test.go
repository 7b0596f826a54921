package fetchbundle

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/steps/bundle"
	"opdev.io/guestcluster/pkg/steps/bundle/bundletest"
	"opdev.io/guestcluster/pkg/steps/fakeapi"
	"opdev.io/guestcluster/pkg/steps/step"
)

const (
	name      = "crc-4.19.3-amd64"
	claimPath = "/api/v1/namespaces/guestcluster-bundles/persistentvolumeclaims/" + name
	keyPath   = "/api/v1/namespaces/guestcluster-bundles/secrets/" + name + "-boot-key"
)

// bench is the step between a fake API, a mirror and a volume.
type bench struct {
	*testing.T
	api    *fakeapi.Server
	mirror *bundletest.Mirror
	step   *Fetcher
	out    bytes.Buffer
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, api: fakeapi.Start(t), mirror: bundletest.Start(t)}
	volumes, err := bundle.NewVolumes(b.api.Config(), guestcluster.BundleNamespace)
	if err != nil {
		t.Fatal(err)
	}
	b.step = &Fetcher{
		Options: Options{
			Source:    bundle.Source{Version: bundletest.Version, Arch: bundletest.Arch, CABundle: b.mirror.CABundle, MaxBundleSize: "1Gi"},
			Namespace: guestcluster.BundleNamespace, GoldenVolume: name, GoldenVolumeUID: "volume-uid", RunUID: "run-1", BundleUID: "bundle-uid",
			VolumeDir: t.TempDir(), ScratchDir: t.TempDir(), Timeout: time.Minute, SHA256Path: filepath.Join(t.TempDir(), "sha256"),
		},
		Volumes: volumes, Progress: &b.out, Pause: wait.Backoff{Duration: time.Millisecond, Steps: 1}, Now: time.Now, Dial: b.mirror.Dial,
	}
	b.claim(map[string]string{guestcluster.PrepareRunAnnotation: "run-1"})
	return b
}

func (b *bench) claim(annotations map[string]string) {
	b.api.Put(claimPath, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: "volume-uid", Labels: map[string]string{guestcluster.BundleLabel: name}, Annotations: annotations,
	}})
}

func (b *bench) run(code int, parts ...string) {
	b.Helper()
	err := b.step.Run(context.Background())
	if step.ExitCode(err) != code {
		b.Fatalf("exit code %d, want %d: %v", step.ExitCode(err), code, err)
	}
	said := b.out.String()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			b.Errorf("%v does not contain %q", err, part)
		}
	}
	if err != nil {
		said += err.Error()
	}
	if line := strings.Split(string(bundletest.Key()), "\n")[1]; strings.Contains(said, line) || strings.Contains(said, "PRIVATE KEY-----") {
		b.Error("key material in the output")
	}
	if left, _ := filepath.Glob(filepath.Join(b.step.ScratchDir, "*")); len(left) > 0 {
		b.Errorf("scratch holds %q", left)
	}
}

// empty wants nothing on the volume and no key.
func (b *bench) empty() {
	b.Helper()
	if left, _ := filepath.Glob(filepath.Join(b.step.VolumeDir, "*")); len(left) > 0 {
		b.Errorf("the volume holds %q", left)
	}
	if b.api.Get(keyPath, &corev1.Secret{}) {
		b.Error("there is a boot key")
	}
}

func (b *bench) full() {
	b.Helper()
	path := filepath.Join(b.step.VolumeDir, "disk.img")
	raw, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(raw, bundletest.Raw()) {
		b.Fatalf("the disk differs: %v", err)
	}
	info, _ := os.Stat(path)
	if used := info.Sys().(*syscall.Stat_t).Blocks * 512; info.Mode().Perm() != 0o660 || used > 64<<10 {
		b.Errorf("mode %v, %d bytes used", info.Mode(), used)
	}
	if left, _ := filepath.Glob(filepath.Join(b.step.VolumeDir, "*")); len(left) != 1 {
		b.Errorf("the volume holds %q", left)
	}
	key := &corev1.Secret{}
	b.api.Get(keyPath, key)
	if len(key.Data) != 1 || !bytes.Equal(key.Data[guestcluster.BootKeyKey], bundletest.Key()) {
		b.Errorf("the boot key has %d keys, or differs", len(key.Data))
	}
	sum, _ := os.ReadFile(b.step.SHA256Path)
	if a := key.Annotations; a[guestcluster.BundleSHA256Annotation] != string(sum) || a[guestcluster.OCPVersionAnnotation] != bundletest.Version || a[guestcluster.PrepareRunAnnotation] != "run-1" {
		b.Errorf("%v, result %s", a, sum)
	}
}

func TestFillsTheVolume(t *testing.T) {
	b := newBench(t)
	for range 2 { // the second time over what the first has left
		b.run(0)
		b.full()
	}
	if sum, _ := os.ReadFile(b.step.SHA256Path); string(sum) != bundletest.SHA256(bundletest.Default()) {
		t.Errorf("result %s", sum)
	}
	key := &corev1.Secret{}
	b.api.Get(keyPath, key)
	if key.OwnerReferences[0].UID != "bundle-uid" {
		t.Errorf("%+v", key.OwnerReferences)
	}
}

func TestWhatAKilledPodLeftIsNoHindrance(t *testing.T) {
	b := newBench(t)
	for _, path := range []string{
		filepath.Join(b.step.VolumeDir, "disk.img"), filepath.Join(b.step.VolumeDir, "disk.img.partial"), filepath.Join(b.step.ScratchDir, "disk.qcow2"),
	} {
		if err := os.WriteFile(path, bytes.Repeat([]byte("junk"), 2<<20), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.run(0)
	b.full()
}

func TestASealedVolumeIsNotTouched(t *testing.T) {
	b := newBench(t)
	b.claim(map[string]string{guestcluster.PrepareRunAnnotation: "run-0", guestcluster.BundleSHA256Annotation: "sealed"})
	b.run(0)
	b.empty()
	if sum, _ := os.ReadFile(b.step.SHA256Path); string(sum) != "sealed" || len(b.mirror.Calls()) > 0 {
		t.Errorf("result %s, %q", sum, b.mirror.Calls())
	}
}

func TestAVolumeOfAnotherRunIsNotTouched(t *testing.T) {
	b := newBench(t)
	b.claim(map[string]string{guestcluster.PrepareRunAnnotation: "run-2"})
	b.run(step.ExitInfra, "taken over by the run with UID run-2")
	b.step.GoldenVolumeUID = "an older one"
	b.run(step.ExitInfra, "is gone")
	b.api.Remove(claimPath)
	b.run(step.ExitInfra, "is gone")
	b.empty()
}

func TestBadBundlesLeaveNothing(t *testing.T) {
	publish := func(change func(*testing.T, []bundletest.Member) []bundletest.Member) func(*bench) {
		return func(b *bench) {
			b.mirror.Publish(bundletest.Zstd(bundletest.Tar(bundletest.Top, change(b.T, bundletest.Members(bundletest.Info()))...)))
		}
	}
	without := func(name string) func(*bench) {
		return publish(func(t *testing.T, m []bundletest.Member) []bundletest.Member { return bundletest.Without(t, m, name) })
	}
	key := func(content []byte) func(*bench) {
		return publish(func(_ *testing.T, m []bundletest.Member) []bundletest.Member { m[2].Data = content; return m })
	}
	good := bundletest.SHA256(bundletest.Default())
	list := bundletest.Dir + "sha256sum.txt"
	for name, tt := range map[string]struct {
		arrange func(*bench)
		code    int
		parts   []string
	}{
		"a checksum that was given and is another": {func(b *bench) { b.step.SHA256 = bundletest.SHA256(nil) }, step.ExitUser, []string{good, bundletest.SHA256(nil)}},
		"a checksum in the list that is another":   {func(b *bench) { b.mirror.Put(list, []byte(bundletest.SHA256(nil)+"  "+bundletest.FileName)) }, step.ExitUser, []string{good, bundletest.SHA256(nil)}},
		"truncated": {func(b *bench) { b.mirror.Put(bundletest.Dir+bundletest.FileName, bundletest.Default()[:2500]) }, step.ExitUser,
			[]string{good, bundletest.SHA256(bundletest.Default()[:2500])}},
		"truncated before it was summed": {func(b *bench) { b.mirror.Publish(bundletest.Default()[:2500]) }, step.ExitUser, []string{"no bundle although its checksum is right"}},
		"no line in the list":            {func(b *bench) { b.mirror.Put(list, []byte("00  other\n")) }, step.ExitUser, []string{"no line for " + bundletest.FileName}},
		"no list":                        {func(b *bench) { b.step.SHA256URL = "https://mirror.openshift.com/nowhere" }, step.ExitUser, []string{"nowhere: 404"}},
		"without key":                    {without("id_ecdsa_crc"), step.ExitUser, []string{"id_ecdsa_crc"}},
		"without kubeconfig":             {without("kubeconfig"), step.ExitUser, []string{"kubeconfig"}},
		"without disk":                   {without("crc.qcow2"), step.ExitUser, []string{"crc.qcow2"}},
		"without description":            {without(bundle.InfoName), step.ExitUser, []string{bundle.InfoName}},
		"an encrypted key":               {key(bundletest.LockedKey()), step.ExitUser, []string{"id_ecdsa_crc", "encrypted"}},
		"a malformed key":                {key([]byte("-----BEGIN EC PRIVATE KEY-----\nnonsense\n")), step.ExitUser, []string{"id_ecdsa_crc", "not a private key"}},
		"a disk cut short": {publish(func(t *testing.T, _ []bundletest.Member) []bundletest.Member {
			info := bundletest.Info()
			short := bundletest.Disk()[:130<<10]
			info["storage"].(bundletest.Object)["diskImages"].([]any)[0].(bundletest.Object)["size"] = "133120"
			m := bundletest.Members(info)
			m[1].Data = short
			return m
		}), step.ExitUser, []string{"disk of the bundle"}},
		"a way out": {publish(func(_ *testing.T, m []bundletest.Member) []bundletest.Member {
			return append(m, bundletest.Member{Name: "../disk.img", Data: []byte("x")})
		}), step.ExitUser, []string{"not a file in its one directory"}},
		"a server that hangs up": {func(b *bench) {
			b.mirror.Before(func(w http.ResponseWriter, r *http.Request) bool {
				if strings.HasSuffix(r.URL.Path, ".crcbundle") {
					b.mirror.Cut(w, r.URL.Path, 0, 0)
				}
				return false
			})
		}, step.ExitInfra, []string{"gave up after"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			tt.arrange(b)
			b.run(tt.code, tt.parts...)
			b.empty()
		})
	}
}

func TestACutDownloadIsResumed(t *testing.T) {
	b := newBench(t)
	first := true
	b.mirror.Before(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, ".crcbundle") && first {
			first = false
			b.mirror.Cut(w, r.URL.Path, 0, 2000)
		}
		return false
	})
	b.run(0)
	b.full()
}

func TestForeignSecretsAreNotWritten(t *testing.T) {
	b := newBench(t)
	b.api.Put(keyPath, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name + "-boot-key"}})
	b.run(step.ExitUser, "is not a boot key")
}

func TestAnOldKeyOfTheBundleIsReplaced(t *testing.T) {
	b := newBench(t)
	b.api.Put(keyPath, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-boot-key", Labels: map[string]string{guestcluster.BundleLabel: name}},
		Data:       map[string][]byte{guestcluster.BootKeyKey: []byte("old")},
	})
	conflicts := 0
	b.api.Fault(func(r *http.Request) int {
		if r.Method == http.MethodPatch && conflicts < 2 {
			conflicts++
			return http.StatusConflict
		}
		return 0
	})
	b.run(0)
	b.full()
}

func TestAVolumeThatIsFull(t *testing.T) {
	for err, text := range map[error]string{syscall.ENOSPC: "goldenVolumeSize", syscall.EACCES: "fsGroup"} {
		if got := (volume{}).explain("write disk", err); step.ExitCode(got) != step.ExitUser || !strings.Contains(got.Error(), text) {
			t.Error(got)
		}
	}
}

func TestTheTimeoutIsTheSteps(t *testing.T) {
	b := newBench(t)
	b.step.Timeout = 100 * time.Millisecond
	b.mirror.Before(func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true })
	b.run(step.ExitTimeout, "deadline")
	b.empty()
}
