package publishbundle

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/steps/bundle"
	"opdev.io/guestcluster/pkg/steps/fakeapi"
	"opdev.io/guestcluster/pkg/steps/step"
)

const (
	name      = "crc-4.19.3-amd64"
	claimPath = "/api/v1/namespaces/guestcluster-bundles/persistentvolumeclaims/" + name
	keyPath   = "/api/v1/namespaces/guestcluster-bundles/secrets/" + name + "-boot-key"
)

// bench is the step before a fake API with what fetch-bundle leaves.
type bench struct {
	*testing.T
	api   *fakeapi.Server
	step  *Publisher
	claim *corev1.PersistentVolumeClaim
	key   *corev1.Secret
	out   bytes.Buffer
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, api: fakeapi.Start(t)}
	volumes, err := bundle.NewVolumes(b.api.Config(), guestcluster.BundleNamespace)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	b.step = &Publisher{
		Options: Options{
			Source:    bundle.Source{Version: "4.19.3", Arch: "amd64", SHA256: "abc"},
			Namespace: guestcluster.BundleNamespace, GoldenVolume: name, GoldenVolumeUID: "volume-uid", RunUID: "run-1", Timeout: 5 * time.Second,
			SSHKeySecretPath: filepath.Join(dir, "ssh-key-secret"), OCPVersionPath: filepath.Join(dir, "ocp-version"), BuildTimePath: filepath.Join(dir, "build-time"),
		},
		Volumes: volumes, Progress: &b.out, Pause: wait.Backoff{Duration: time.Millisecond, Steps: 1},
	}
	labels := map[string]string{guestcluster.BundleLabel: name}
	b.claim = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: "volume-uid", Labels: labels, Annotations: map[string]string{guestcluster.PrepareRunAnnotation: "run-1", "kept": "yes"},
	}}
	b.key = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-boot-key", Labels: labels, Annotations: map[string]string{
			guestcluster.BundleSHA256Annotation: "abc", guestcluster.OCPVersionAnnotation: "4.19.3", guestcluster.BuildTimeAnnotation: "2026-01-02T03:04:05Z",
			guestcluster.PrepareRunAnnotation: "run-1",
		}},
		Data: map[string][]byte{guestcluster.BootKeyKey: []byte("key")},
	}
	return b
}

func (b *bench) run(code int, parts ...string) *corev1.PersistentVolumeClaim {
	b.Helper()
	err := b.step.Run(context.Background())
	if step.ExitCode(err) != code {
		b.Fatalf("exit code %d, want %d: %v", step.ExitCode(err), code, err)
	}
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			b.Errorf("%v does not contain %q", err, part)
		}
	}
	claim := &corev1.PersistentVolumeClaim{}
	b.api.Get(claimPath, claim)
	return claim
}

func (b *bench) put() {
	b.api.Put(claimPath, b.claim)
	b.api.Put(keyPath, b.key)
}

func TestSealsTheVolumeOnce(t *testing.T) {
	b := newBench(t)
	b.put()
	version := ""
	for range 2 {
		claim := b.run(0)
		if version != "" && claim.ResourceVersion != version {
			t.Error("wrote a sealed volume")
		}
		version = claim.ResourceVersion
		for key, want := range map[string]string{
			guestcluster.BundleSHA256Annotation: "abc", guestcluster.OCPVersionAnnotation: "4.19.3", guestcluster.BuildTimeAnnotation: "2026-01-02T03:04:05Z",
			guestcluster.PrepareRunAnnotation: "run-1", "kept": "yes",
		} {
			if claim.Annotations[key] != want {
				t.Errorf("%s = %q", key, claim.Annotations[key])
			}
		}
	}
	for path, want := range map[string]string{b.step.SSHKeySecretPath: name + "-boot-key", b.step.OCPVersionPath: "4.19.3", b.step.BuildTimePath: "2026-01-02T03:04:05Z"} {
		if got, _ := os.ReadFile(path); string(got) != want {
			t.Errorf("%s holds %q", path, got)
		}
	}
}

func TestASecondRunFindsItSealed(t *testing.T) {
	b := newBench(t)
	b.put()
	b.run(0)
	b.step.RunUID = "run-2"
	if claim := b.run(0); claim.Annotations[guestcluster.PrepareRunAnnotation] != "run-1" {
		t.Errorf("%v", claim.Annotations)
	}
}

func TestWhatIsNotSealed(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*bench)
		code   int
		parts  []string
	}{
		"a volume of another run":       {func(b *bench) { b.claim.Annotations[guestcluster.PrepareRunAnnotation] = "run-2" }, step.ExitInfra, []string{"taken over", "run-2"}},
		"another volume of that name":   {func(b *bench) { b.claim.UID = "new" }, step.ExitInfra, []string{"is gone"}},
		"a volume of somebody else":     {func(b *bench) { b.claim.Labels = nil }, step.ExitUser, []string{"not a golden volume"}},
		"one whose key is of another":   {func(b *bench) { b.key.Annotations[guestcluster.BundleSHA256Annotation] = "def" }, step.ExitUser, []string{"another bundle", "delete pvc"}},
		"one whose key is somebody's":   {func(b *bench) { b.key.Labels = nil }, step.ExitUser, []string{"not the boot key"}},
		"one whose key is an empty one": {func(b *bench) { b.key.Data = nil }, step.ExitUser, []string{"not the boot key"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			tt.change(b)
			b.put()
			if claim := b.run(tt.code, tt.parts...); bundle.Sealed(claim) {
				t.Error("sealed")
			}
		})
	}
	t.Run("one without key", func(t *testing.T) {
		b := newBench(t)
		b.api.Put(claimPath, b.claim)
		b.run(step.ExitUser, "is gone", "prepare the bundle anew")
	})
}

func TestConflictsAreTriedAgain(t *testing.T) {
	b := newBench(t)
	b.put()
	n := 0
	b.api.Before(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch && n < 2 {
			n++
			b.api.Put(claimPath, b.claim) // somebody else writes first
		}
		return false
	})
	if claim := b.run(0); !bundle.Sealed(claim) {
		t.Error("not sealed")
	}
}
