package creategoldenvolume

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
	"k8s.io/apimachinery/pkg/api/resource"
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
	runPath   = "/apis/tekton.dev/v1/namespaces/guestcluster-bundles/pipelineruns/other"
)

// bench is the step between a fake API and a mirror.
type bench struct {
	*testing.T
	api    *fakeapi.Server
	mirror *bundletest.Mirror
	step   *Creator
	out    bytes.Buffer
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, api: fakeapi.Start(t), mirror: bundletest.Start(t)}
	volumes, err := bundle.NewVolumes(b.api.Config(), guestcluster.BundleNamespace)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	b.step = &Creator{
		Options: Options{
			Source:    bundle.Source{Version: bundletest.Version, Arch: bundletest.Arch, CABundle: b.mirror.CABundle, MaxBundleSize: "1Gi"},
			Namespace: guestcluster.BundleNamespace, RunName: "mine", RunUID: "run-1", Timeout: time.Minute,
			GoldenVolumePath: filepath.Join(dir, "golden-volume"), GoldenVolumeUIDPath: filepath.Join(dir, "golden-volume-uid"),
		},
		Volumes: volumes, Progress: &b.out, Pause: wait.Backoff{Duration: time.Millisecond, Steps: 1}, DeletionWait: 200 * time.Millisecond,
		Now: time.Now, Dial: b.mirror.Dial,
	}
	return b
}

// claim is a golden volume that is there already.
func (b *bench) claim(change func(*corev1.PersistentVolumeClaim)) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: guestcluster.BundleNamespace, Labels: map[string]string{guestcluster.BundleLabel: name}, Annotations: map[string]string{},
	}}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
	change(claim)
	b.api.Put(claimPath, claim)
}

func lockedBy(uid, run string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Annotations[guestcluster.PrepareRunAnnotation], c.Annotations[guestcluster.PrepareRunNameAnnotation] = uid, run
	}
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
	if code == 0 {
		for path, want := range map[string]string{b.step.GoldenVolumePath: name, b.step.GoldenVolumeUIDPath: string(claim.UID)} {
			if got, _ := os.ReadFile(path); string(got) != want {
				b.Errorf("%s holds %q, want %q", path, got, want)
			}
		}
	}
	return claim
}

func TestMakesTheVolumeThatTheDiskNeeds(t *testing.T) {
	b := newBench(t)
	b.step.BundleUID, b.step.StorageClass = "bundle-uid", "fast"
	for range 2 { // a killed pod starts again
		claim := b.run(0)
		size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
		if size.String() != "1Gi" || *claim.Spec.StorageClassName != "fast" || claim.Spec.AccessModes[0] != corev1.ReadWriteOnce {
			t.Errorf("%+v", claim.Spec)
		}
		if owner := claim.OwnerReferences[0]; owner.Kind != "CRCBundle" || owner.Name != name || owner.UID != "bundle-uid" || owner.BlockOwnerDeletion != nil {
			t.Errorf("%+v", owner)
		}
		if a := claim.Annotations; a[contentTypeAnnotation] != "kubevirt" || a[guestcluster.PrepareRunAnnotation] != "run-1" || a[guestcluster.PrepareRunNameAnnotation] != "mine" {
			t.Errorf("%v", a)
		}
		if claim.Labels[guestcluster.BundleLabel] != name {
			t.Errorf("%v", claim.Labels)
		}
	}
}

func TestAPersonsRunOwnsNothing(t *testing.T) {
	if claim := newBench(t).run(0); len(claim.OwnerReferences) > 0 || claim.Spec.StorageClassName != nil {
		t.Errorf("%+v", claim)
	}
}

func TestSizesFollowTheVirtualSize(t *testing.T) {
	for virtual, want := range map[int64]string{1: "1Gi", 31 << 30: "33Gi", 43 << 30: "46Gi", 1 << 30: "2Gi", 47 << 30: "50Gi"} {
		if got := needed(virtual); got.String() != want {
			t.Errorf("%d: %s, want %s", virtual, got.String(), want)
		}
	}
}

// Nothing exists after any of these.
func TestRefusesBeforeItMakesAnything(t *testing.T) {
	publish := func(change func(bundletest.Object)) func(*bench) {
		return func(b *bench) {
			info := bundletest.Info()
			change(info)
			b.mirror.Publish(bundletest.Zstd(bundletest.Tar(bundletest.Top, bundletest.Members(info)...)))
		}
	}
	for name, tt := range map[string]struct {
		arrange func(*bench)
		parts   []string
	}{
		"a version that is not there": {func(b *bench) { b.step.Version = "4.16.0" }, []string{"crc_libvirt_4.16.0_amd64.crcbundle: 404", "no such bundle"}},
		"an arch that is not there":   {func(b *bench) { b.step.Arch = "arm64" }, []string{"404"}},
		"a bundle of another arch":    {publish(func(i bundletest.Object) { i["arch"] = "arm64" }), []string{"arm64"}},
		"a bundle of another preset":  {publish(func(i bundletest.Object) { i["type"] = "microshift" }), []string{"microshift"}},
		"a disk of another length": {publish(func(i bundletest.Object) {
			i["storage"].(bundletest.Object)["diskImages"].([]any)[0].(bundletest.Object)["size"] = "7"
		}), []string{"unexpected disk image size"}},
		"a size that is too small":   {func(b *bench) { b.step.GoldenVolumeSize = "3Mi" }, []string{"golden-volume-size 3Mi is too small", "1Gi"}},
		"a page instead of a bundle": {func(b *bench) { b.mirror.Publish([]byte("<html>maintenance</html>")) }, []string{"is no bundle"}},
		"a bundle that is cut early": {func(b *bench) { b.mirror.Publish(bundletest.Default()[:100]) }, []string{"is no bundle"}},
		"a size that is none":        {func(b *bench) { b.step.GoldenVolumeSize = "big" }, []string{"golden-volume-size"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			tt.arrange(b)
			if claim := b.run(step.ExitUser, tt.parts...); claim.Name != "" {
				t.Error("a volume was made")
			}
			for _, call := range b.api.Calls() {
				if !strings.HasPrefix(call, "GET ") {
					t.Errorf("the API saw %s", call)
				}
			}
		})
	}
}

func TestTheGivenSizeWins(t *testing.T) {
	b := newBench(t)
	b.step.GoldenVolumeSize = "40Gi"
	claim := b.run(0)
	if size := claim.Spec.Resources.Requests[corev1.ResourceStorage]; size.String() != "40Gi" {
		t.Error(size.String())
	}
}

func TestASealedVolumeIsLeftAsItIs(t *testing.T) {
	b := newBench(t)
	b.claim(func(c *corev1.PersistentVolumeClaim) {
		lockedBy("run-0", "other")(c)
		c.Annotations[guestcluster.BundleSHA256Annotation] = bundletest.SHA256(nil)
	})
	b.api.Put(runPath, map[string]any{"metadata": map[string]any{"name": "other", "uid": "run-0"}})
	if claim := b.run(0); claim.Annotations[guestcluster.PrepareRunAnnotation] != "run-0" || len(b.mirror.Calls()) > 0 {
		t.Errorf("%v, %q", claim.Annotations, b.mirror.Calls())
	}
	b.step.SHA256 = bundletest.SHA256([]byte("another"))
	b.run(step.ExitUser, "was made of a bundle with checksum "+bundletest.SHA256(nil), "delete")
}

func TestVolumesThatExist(t *testing.T) {
	run := func(uid string, done bool) func(*bench) {
		return func(b *bench) {
			b.claim(lockedBy("run-0", "other"))
			object := map[string]any{"metadata": map[string]any{"name": "other", "uid": uid}}
			if done {
				object["status"] = map[string]any{"completionTime": "2030-01-01T00:00:00Z"}
			}
			b.api.Put(runPath, object)
		}
	}
	claim := func(change func(*corev1.PersistentVolumeClaim)) func(*bench) {
		return func(b *bench) { b.claim(change) }
	}
	block := corev1.PersistentVolumeBlock
	for name, tt := range map[string]struct {
		arrange func(*bench)
		code    int
		parts   []string
	}{
		"locked by a run that lives":       {run("run-0", false), step.ExitInfra, []string{"PipelineRun other", "wait"}},
		"locked by a run that has ended":   {run("run-0", true), 0, nil},
		"locked by a run that is gone":     {claim(lockedBy("run-0", "other")), 0, nil},
		"locked by a namesake of that run": {run("run-9", false), 0, nil},
		"locked by a run without name":     {claim(lockedBy("run-0", "")), step.ExitUser, []string{"run-0", "delete"}},
		"unlocked and large enough":        {claim(func(*corev1.PersistentVolumeClaim) {}), 0, nil},
		"unlocked and grown": {claim(func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("1Mi")
			c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		}), 0, nil},
		"too small": {claim(func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("1Mi")
		}), step.ExitUser, []string{"has 1Mi", "kubectl -n guestcluster-bundles delete pvc"}},
		"without file system": {claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = &block }), step.ExitUser, []string{"Block", "delete"}},
		"without storage":     {claim(func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }), step.ExitUser, []string{"lost", "delete"}},
		"of somebody else":    {claim(func(c *corev1.PersistentVolumeClaim) { c.Labels = nil }), step.ExitUser, []string{"not a golden volume"}},
		"going and never gone": {claim(func(c *corev1.PersistentVolumeClaim) {
			now := metav1.Now()
			c.DeletionTimestamp, c.Finalizers = &now, []string{"kubernetes.io/pvc-protection"}
		}), step.ExitTimeout, []string{"being deleted", "pvc-protection"}},
		"of an earlier bundle of that name": {claim(func(c *corev1.PersistentVolumeClaim) { c.OwnerReferences = []metav1.OwnerReference{{UID: "old"}} }), step.ExitTimeout, []string{"earlier CRCBundle"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.step.BundleUID = "bundle-uid"
			tt.arrange(b)
			claim := b.run(tt.code, tt.parts...)
			if mine := claim.Annotations[guestcluster.PrepareRunAnnotation] == "run-1"; mine != (tt.code == 0) {
				t.Errorf("locked by this run: %v", mine)
			}
		})
	}
}

func TestAnOldVolumeIsWaitedFor(t *testing.T) {
	b := newBench(t)
	b.step.DeletionWait = time.Minute
	b.claim(func(c *corev1.PersistentVolumeClaim) { now := metav1.Now(); c.DeletionTimestamp = &now })
	n := 0
	b.api.Before(func(http.ResponseWriter, *http.Request) bool {
		if n++; n == 3 {
			b.api.Remove(claimPath)
		}
		return false
	})
	if claim := b.run(0); claim.DeletionTimestamp != nil {
		t.Error("adopted a volume that goes")
	}
}

// Two runs start at once: the slower one sees the other's volume.
func TestARaceHasOneWinner(t *testing.T) {
	b := newBench(t)
	b.api.Put(runPath, map[string]any{"metadata": map[string]any{"name": "other", "uid": "run-0"}})
	raced := false
	b.api.Before(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && !raced {
			raced = true
			b.claim(lockedBy("run-0", "other"))
		}
		return false
	})
	b.run(step.ExitInfra, "PipelineRun other")
}

func TestMissingRightsSayWhichRole(t *testing.T) {
	b := newBench(t)
	b.api.Fault(func(r *http.Request) int {
		if r.Method == http.MethodPost {
			return http.StatusForbidden
		}
		return 0
	})
	b.run(step.ExitUser, "Role prepare-bundle")
}
