package cel_test

import (
	"context"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"opdev.io/guestcluster/pkg/steps/createdatavolume"
	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/step"
	"opdev.io/guestcluster/pkg/steps/virt"
	"opdev.io/guestcluster/test/internal/server"
	virtualization "opdev.io/guestcluster/test/rig/standins/crds"
)

// installVirtualization applies the real kinds of KubeVirt and CDI.
func installVirtualization(t *testing.T) {
	t.Helper()
	manifests, err := virtualization.Manifests()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range manifests {
		crd, err := server.Parse(string(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := shared.Apply(t.Context(), crd); err != nil {
			t.Fatal(err)
		}
	}
}

// The objects that steps make, as their packages' golden files show them, are
// accepted by the real schemas, and no field is pruned.
func TestTheObjectsOfCRCAreAccepted(t *testing.T) {
	installVirtualization(t)
	for pattern, resource := range map[string]schema.GroupVersionResource{
		"createdatavolume": virt.DataVolumesResource,
		"bootvm":           virt.MachinesResource,
	} {
		files, err := filepath.Glob(filepath.Join(server.Root(), "pkg", "steps", pattern, "testdata", "*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%d golden files of %s: %v", len(files), pattern, err)
		}
		for _, file := range files {
			t.Run(pattern+"/"+filepath.Base(file), func(t *testing.T) { accepted(t, file, resource) })
		}
	}
}

func accepted(t *testing.T, file string, resource schema.GroupVersionResource) {
	objects, err := server.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	object := objects[0]
	object.SetNamespace(shared.Namespace(t, nil))
	client := shared.Dynamic.Resource(resource).Namespace(object.GetNamespace())
	made, err := client.Create(t.Context(), object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Fatal(err)
	}
	// Defaults may be added; what was sent must have stayed.
	if diff := cmp.Diff(object.Object["spec"], within(object.Object["spec"], made.Object["spec"])); diff != "" {
		t.Error(diff)
	}
}

// within is got without what want does not have.
func within(want, got any) any {
	wanted, isMap := want.(map[string]any)
	all, ok := got.(map[string]any)
	if !isMap || !ok {
		return got
	}
	kept := map[string]any{}
	for key, value := range wanted {
		if below, ok := all[key]; ok {
			kept[key] = within(value, below)
		}
	}
	return kept
}

// What examples/crc has people apply is accepted, in the namespace it makes.
func TestTheExamplesOfCRCAreAccepted(t *testing.T) {
	for _, name := range []string{"namespace.yaml", "pool.yaml", "manual-pool.yaml"} {
		file := filepath.Join(server.Root(), "examples", "crc", name)
		objects, err := server.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			if err := shared.Apply(t.Context(), object); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}

// The step's own client speaks with a real API server: it makes, reads,
// adopts and understands refusals.
func TestCreateDataVolumeOnARealServer(t *testing.T) {
	installVirtualization(t)
	namespace := shared.Namespace(t, nil)
	clients, err := virt.NewClients(server.Fast(shared.Config), namespace)
	if err != nil {
		t.Fatal(err)
	}
	sources, err := kube.NewObjects[corev1.PersistentVolumeClaim](server.Fast(shared.Config), virt.ClaimsResource, "guestcluster-bundles")
	if err != nil {
		t.Fatal(err)
	}
	run := func(uid, volume string) error {
		c := &createdatavolume.Creator{
			Sources: sources,
			Options: createdatavolume.Options{Instance: "crc-pool-0", Namespace: namespace, InstanceUID: uid, Name: "gc-x",
				SourceNamespace: "guestcluster-bundles", SourceVolume: volume, Size: "80Gi", Timeout: time.Minute},
			Clients: clients, Progress: io.Discard, Pause: wait.Backoff{Duration: 20 * time.Millisecond}, Now: time.Now,
		}
		return c.Run(t.Context())
	}
	volumes := shared.Dynamic.Resource(virt.DataVolumesResource).Namespace(namespace)
	done := make(chan error, 1)
	go func() { done <- run("a", "golden") }()
	err = wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := volumes.Patch(ctx, "gc-x", types.MergePatchType, []byte(`{"status":{"phase":"WaitForFirstConsumer"}}`), metav1.PatchOptions{}, "status")
		return err == nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("made: %v", err)
	}
	if err := run("a", "golden"); err != nil {
		t.Errorf("adopted: %v", err)
	}
	if err := run("a", "other"); step.ExitCode(err) != step.ExitUser {
		t.Errorf("another source: %v", err)
	}
	if err := run("b", "golden"); step.ExitCode(err) != step.ExitUser {
		t.Errorf("another owner: %v", err)
	}
}
