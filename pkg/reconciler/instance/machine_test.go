package instance

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

func crcInstance() *v1alpha1.ClusterInstance {
	i := deleted()
	i.Spec.Type, i.Spec.Template.CRCVersion = v1alpha1.TypeCRC, "4.19.3"
	return i
}

// guest is machine, running machine, volume and claim as KubeVirt and CDI make them.
func guest(i *v1alpha1.ClusterInstance) (machine, running, volume, claim *unstructured.Unstructured) {
	name := i.DerivedName()
	machine = asChild(i, machineGVR.GroupVersion(), "VirtualMachine", name)
	_ = unstructured.SetNestedField(machine.Object, strategyAlways, "spec", "runStrategy")
	volume = asChild(i, dataVolumeGVR.GroupVersion(), "DataVolume", name)
	running = asChild(i, runningGVR.GroupVersion(), "VirtualMachineInstance", name)
	running.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(machine, machine.GroupVersionKind())})
	claim = asChild(i, claimGVR.GroupVersion(), "PersistentVolumeClaim", name)
	claim.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(volume, volume.GroupVersionKind())})
	return machine, running, volume, claim
}

func TestMachineGoesBeforeItsDisk(t *testing.T) {
	i := crcInstance()
	machine, running, volume, claim := guest(i)
	running.SetFinalizers([]string{"foregroundDeleteVirtualMachine"})
	running.SetDeletionTimestamp(i.DeletionTimestamp)
	w := newWorld(t, []runtime.Object{i.DeepCopy()}, []runtime.Object{machine, running, volume, claim})
	if err := w.FinalizeKind(w.ctx, i); err == nil || !strings.Contains(deletingText(i), "VirtualMachineInstance "+i.DerivedName()+" (kept by finalizer foregroundDeleteVirtualMachine)") {
		t.Fatalf("got %v, condition Deleting says %q", err, deletingText(i))
	}
	if n := len(deletions(w.dynamic.Actions(), "virtualmachines")); n != 1 {
		t.Errorf("the VirtualMachine was deleted %d times", n)
	}
	if n := len(deletions(w.dynamic.Actions(), "datavolumes")) + len(deletions(w.dynamic.Actions(), "persistentvolumeclaims")); n != 0 {
		t.Errorf("%d disks were deleted below a machine", n)
	}
	if err := w.dynamic.Tracker().Delete(runningGVR, "ci", i.DerivedName()); err != nil {
		t.Fatal(err)
	}
	if err := w.FinalizeKind(w.ctx, i); err != nil {
		t.Errorf("the finalizer stays: %v, %q", err, deletingText(i))
	}
	if n := len(deletions(w.dynamic.Actions(), "datavolumes")) + len(deletions(w.dynamic.Actions(), "persistentvolumeclaims")); n != 2 {
		t.Errorf("%d of 2 disks were deleted", n)
	}
}

func TestOnlyOurGuestIsDestroyed(t *testing.T) {
	stranger := func(o *unstructured.Unstructured) { o.SetOwnerReferences(nil) }
	rows := map[string]struct {
		change func(machine, running, volume, claim *unstructured.Unstructured) []runtime.Object
		gone   int
	}{
		"all of it":                              {func(m, r, v, c *unstructured.Unstructured) []runtime.Object { return []runtime.Object{m, r, v, c} }, 4},
		"what garbage collection did not get to": {func(_, r, _, c *unstructured.Unstructured) []runtime.Object { return []runtime.Object{r, c} }, 2},
		"a claim that CDI has handed over": {func(m, _, _, c *unstructured.Unstructured) []runtime.Object {
			c.SetOwnerReferences(m.GetOwnerReferences())
			return []runtime.Object{c}
		}, 1},
		"not a machine of somebody else, nor what runs for it": {func(m, r, v, c *unstructured.Unstructured) []runtime.Object {
			stranger(m)
			stranger(v)
			return []runtime.Object{m, r, v, c}
		}, 0},
		"not what nobody owns": {func(_, r, _, c *unstructured.Unstructured) []runtime.Object {
			stranger(r)
			stranger(c)
			return []runtime.Object{r, c}
		}, 0},
		"not what an object of that name but another kind owns": {func(_, r, _, c *unstructured.Unstructured) []runtime.Object {
			r.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(c, c.GroupVersionKind())})
			return []runtime.Object{r}
		}, 0},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			i := crcInstance()
			m, r, v, c := guest(i)
			w := newWorld(t, []runtime.Object{i.DeepCopy()}, row.change(m, r, v, c))
			if err := w.FinalizeKind(w.ctx, i); err != nil {
				t.Fatalf("%v: %s", err, deletingText(i))
			}
			gone := 0
			for _, kind := range []string{"virtualmachines", "virtualmachineinstances", "datavolumes", "persistentvolumeclaims"} {
				gone += len(deletions(w.dynamic.Actions(), kind))
			}
			if gone != row.gone {
				t.Errorf("%d objects were deleted, want %d", gone, row.gone)
			}
		})
	}
}

func TestAbsentVirtualizationCountsAsGone(t *testing.T) {
	i := crcInstance()
	w := newWorld(t, []runtime.Object{i.DeepCopy()}, nil)
	for _, gvr := range []string{"virtualmachines", "virtualmachineinstances", "datavolumes"} {
		w.dynamic.PrependReactor("*", gvr, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, notServedError(machineGVR) })
	}
	if err := w.FinalizeKind(w.ctx, i); err != nil {
		t.Errorf("the finalizer stays: %v", err)
	}
	if _, err := w.tend(w.ctx, i); err == nil || i.IsFailed() {
		t.Error("an API that is not served for a moment loses the guest")
	}
}

func TestMachineIsAccepted(t *testing.T) {
	rows := map[string]struct {
		change func(s *corev1.Secret, machine, running *unstructured.Unstructured)
		want   string
	}{
		"with the UID of the one that runs": {func(*corev1.Secret, *unstructured.Unstructured, *unstructured.Unstructured) {}, ""},
		"not without a host key":            {func(s *corev1.Secret, _, _ *unstructured.Unstructured) { delete(s.Data, guestcluster.SSHHostKeyKey) }, "has no key sshHostKey"},
		"not without a UID":                 {func(s *corev1.Secret, _, _ *unstructured.Unstructured) { delete(s.Data, guestcluster.VMIUIDKey) }, "has no key vmiUID"},
		"not of an earlier start":           {func(s *corev1.Secret, _, _ *unstructured.Unstructured) { s.Data[guestcluster.VMIUIDKey] = []byte("m0") }, "another start"},
		"not of a foreign machine":          {func(_ *corev1.Secret, m, _ *unstructured.Unstructured) { m.SetOwnerReferences(nil) }, "is not this instance's"},
		"not of one that ended": {func(_ *corev1.Secret, _, r *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(r.Object, "Failed", "status", "phase")
		}, "does not run"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			i := provisioning()
			i.Spec.Type = v1alpha1.TypeCRC
			machine, running, _, _ := guest(i)
			secret := filled(i)
			secret.Data[guestcluster.VMIUIDKey], secret.Data[guestcluster.SSHHostKeyKey] = []byte(running.GetUID()), []byte("ssh-ed25519 AAAA")
			row.change(secret, machine, running)
			w := newWorld(t, []runtime.Object{i}, []runtime.Object{machine, running})
			got, err := w.acceptMachine(w.ctx, i, secret)
			if err != nil || (got == "") != (row.want == "") || !strings.Contains(got, row.want) {
				t.Errorf("got %q, %v", got, err)
			}
			if want := map[bool]types.UID{true: running.GetUID()}[row.want == ""]; i.VMIUID() != want {
				t.Errorf("recorded %q", i.VMIUID())
			}
		})
	}
}
