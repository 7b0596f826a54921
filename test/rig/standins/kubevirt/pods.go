package kubevirt

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"opdev.io/guestcluster/test/rig/standins/faults"
)

const (
	// overcommit is KubeVirt's memoryOvercommit of 1000 % and
	// cpuAllocationRatio of 10: several guests of 14Gi must fit on the rig's
	// one node, and the stand-in of a guest needs a fraction of that.
	overcommit = 10

	disks        = "/var/run/kubevirt-private/vmi-disks"
	graceDefault = 30
	maxLabel     = 63
)

// Images are what pods run.
type Images struct {
	Launcher string
	// Pause is for pods that only make claims bind.
	Pause string
}

// podName is the same for every try, so that a pod is made once.
func podName(i *instance, temporary bool) string {
	seed := string(i.UID)
	if temporary {
		seed += "temporary"
	}
	sum := sha256.Sum256([]byte(seed))
	return "virt-launcher-" + i.Name + "-" + hex.EncodeToString(sum[:])[:5]
}

func buildPod(i *instance, images Images, told faults.Faults, temporary bool) *corev1.Pod {
	grace := int64(graceDefault)
	if i.Spec.GraceSeconds != nil {
		grace = *i.Spec.GraceSeconds
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: podName(i, temporary), Namespace: i.Namespace, Labels: podLabels(i),
			Annotations:     map[string]string{annotationDomain: i.Name},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(i, instanceKind)},
		},
		Spec: corev1.PodSpec{
			Hostname: hostname(i), RestartPolicy: corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: &grace,
			AutomountServiceAccountToken:  ptr.To(false), EnableServiceLinks: ptr.To(false),
			NodeSelector: nodeSelector(i, told), Tolerations: i.Spec.Tolerations, Affinity: i.Spec.Affinity,
		},
	}
	compute := corev1.Container{
		Name: "compute", Image: images.Launcher,
		SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true), RunAsUser: ptr.To[int64](0)},
		Resources:       corev1.ResourceRequirements{Requests: requests(i)},
		ReadinessProbe:  i.Spec.ReadinessProbe,
	}
	for _, v := range i.Spec.Volumes {
		claim := v.claim()
		if claim == "" {
			continue
		}
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
		compute.VolumeMounts = append(compute.VolumeMounts, corev1.VolumeMount{Name: v.Name, MountPath: path.Join(disks, v.Name)})
	}
	if temporary {
		pod.Annotations[annotationTemporary] = "true"
		compute.Image, compute.ReadinessProbe = images.Pause, nil
	} else {
		compute.Command = command(i, compute.VolumeMounts, told)
	}
	pod.Spec.Containers = []corev1.Container{compute}
	return pod
}

// command boots the first disk.
func command(i *instance, mounts []corev1.VolumeMount, told faults.Faults) []string {
	words := []string{"/launcher", "--name=" + i.Name}
	if len(mounts) > 0 {
		words = append(words, "--disk="+path.Join(mounts[0].MountPath, "disk.img"))
	}
	if told.Has(faults.Guest) {
		words = append(words, "--faults="+told[faults.Guest])
	}
	return words
}

func podLabels(i *instance) map[string]string {
	labels := maps.Clone(i.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[labelApp] = "virt-launcher"
	labels[labelCreatedBy] = string(i.UID)
	labels["vm.kubevirt.io/name"] = hostname(i)
	labels["vmi.kubevirt.io/id"] = identifier(i.Name)
	return labels
}

// hostname is the instance's own or its name, cut to one label.
func hostname(i *instance) string {
	name := i.Spec.Hostname
	if name == "" {
		name = i.Name
	}
	name, _, _ = strings.Cut(name, ".")
	return strings.TrimRight(name[:min(len(name), maxLabel)], "-")
}

func identifier(name string) string {
	if len(name) <= maxLabel {
		return name
	}
	sum := sha1.Sum([]byte(name))
	return name[:54] + "-" + hex.EncodeToString(sum[:])[:8]
}

func nodeSelector(i *instance, told faults.Faults) map[string]string {
	selector := maps.Clone(i.Spec.NodeSelector)
	if selector == nil {
		selector = map[string]string{}
	}
	selector[corev1.LabelArchStable] = "amd64"
	if i.Spec.Architecture != "" {
		selector[corev1.LabelArchStable] = i.Spec.Architecture
	}
	if told.Has(faults.Unschedulable) {
		selector[faults.Unschedulable] = "true"
	}
	return selector
}

func requests(i *instance) corev1.ResourceList {
	cpu := i.Spec.Domain.CPU
	cores := max(cpu.Cores, 1) * max(cpu.Sockets, 1) * max(cpu.Threads, 1)
	list := corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(cores*1000/overcommit, resource.DecimalSI)}
	if guest := i.Spec.Domain.Memory.Guest; guest != nil {
		list[corev1.ResourceMemory] = *resource.NewQuantity(guest.Value()/overcommit, resource.BinarySI)
	}
	for name, quantity := range i.Spec.Domain.Resources.Requests {
		list[name] = quantity
	}
	return list
}
