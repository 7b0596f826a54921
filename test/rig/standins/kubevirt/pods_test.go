package kubevirt

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"opdev.io/guestcluster/test/rig/standins/faults"
)

func templated() *instance {
	i := instanceIn("")
	i.Labels = map[string]string{"guestcluster.opdev.io/endpoint": "uid"}
	i.Spec.Domain.CPU.Cores = 4
	i.Spec.Domain.Memory.Guest = ptr.To(resource.MustParse("14Gi"))
	i.Spec.NodeSelector = map[string]string{"disk": "fast"}
	i.Spec.Volumes = []volume{{Name: "root", DataVolume: &named{Name: "disk"}}}
	return i
}

func TestLauncherPod(t *testing.T) {
	pod := buildPod(templated(), Images{Launcher: "launcher", Pause: "pause"}, faults.Faults{faults.Guest: "ssh-refuse"}, false)
	for name, want := range map[string]string{
		"guestcluster.opdev.io/endpoint": "uid", labelApp: "virt-launcher", labelCreatedBy: "instance",
		"vm.kubevirt.io/name": "disk", "vmi.kubevirt.io/id": "disk",
	} {
		if got := pod.Labels[name]; got != want {
			t.Errorf("label %s: got %q, want %q", name, got, want)
		}
	}
	compute := pod.Spec.Containers[0]
	want := []string{"/launcher", "--name=disk", "--disk=" + disks + "/root/disk.img", "--faults=ssh-refuse"}
	if !slices.Equal(compute.Command, want) || !*compute.SecurityContext.Privileged {
		t.Errorf("got command %v, security context %v", compute.Command, compute.SecurityContext)
	}
	if cpu, memory := compute.Resources.Requests.Cpu(), compute.Resources.Requests.Memory(); cpu.MilliValue() != 400 || memory.Value() != 14<<30/10 {
		t.Errorf("got requests %v %v", cpu, memory)
	}
	if pod.Spec.NodeSelector["disk"] != "fast" || pod.Spec.NodeSelector[corev1.LabelArchStable] != "amd64" {
		t.Errorf("got node selector %v", pod.Spec.NodeSelector)
	}
	if claim := pod.Spec.Volumes[0].PersistentVolumeClaim; claim == nil || claim.ClaimName != "disk" {
		t.Errorf("got volumes %v", pod.Spec.Volumes)
	}
}

func TestTemporaryPodHasAnotherName(t *testing.T) {
	launcher := buildPod(templated(), Images{Launcher: "launcher", Pause: "pause"}, nil, false)
	temporary := buildPod(templated(), Images{Launcher: "launcher", Pause: "pause"}, nil, true)
	if launcher.Name == temporary.Name || !strings.HasPrefix(temporary.Name, "virt-launcher-disk-") {
		t.Errorf("got names %s and %s", launcher.Name, temporary.Name)
	}
	if temporary.Spec.Containers[0].Image != "pause" || temporary.Annotations[annotationTemporary] == "" {
		t.Errorf("got %v", temporary)
	}
}

func TestNamesAreCutToLabels(t *testing.T) {
	i := instanceIn("")
	i.Name = strings.Repeat("a", 62) + "-" + strings.Repeat("b", 10)
	if got := hostname(i); len(got) > maxLabel || strings.HasSuffix(got, "-") {
		t.Errorf("got host name %q", got)
	}
	if got := identifier(i.Name); len(got) != maxLabel {
		t.Errorf("got identifier %q of %d", got, len(got))
	}
	i.Name = "one.two"
	if got := hostname(i); got != "one" {
		t.Errorf("got host name %q", got)
	}
}

func TestInstanceIsTheTemplate(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"a": "b"}},
		"spec":     map[string]any{"unknown": "field"},
	}}}}
	made := buildInstance(object, machineWith(always))
	if made.GetLabels()["a"] != "b" || made.GetName() != "disk" || !slices.Contains(made.GetFinalizers(), instanceFinalizer) {
		t.Errorf("got %v", made)
	}
	if got, _, _ := unstructured.NestedString(made.Object, "spec", "unknown"); got != "field" {
		t.Errorf("got spec %v", made.Object["spec"])
	}
	if owner := made.GetOwnerReferences()[0]; owner.UID != "machine" || owner.Kind != "VirtualMachine" {
		t.Errorf("got owner %v", owner)
	}
}
