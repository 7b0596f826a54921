package bootvm

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	virtv1 "kubevirt.io/api/core/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
)

// machines are the machine types by architecture.
var machines = map[string]string{"amd64": "q35", "arm64": "virt"}

const (
	diskName    = "root"
	networkName = "default"
	apiPort     = 6443
)

// Build is the VirtualMachine of these options. On a drain it is stopped and
// started elsewhere: it cannot migrate, for its disk is mounted once, and must
// not hold the drain up.
func (o *Options) Build() *virtv1.VirtualMachine {
	meta := o.owner().Meta(o.Name)
	inner := maps.Clone(meta.Labels)
	inner[guestcluster.EndpointLabel] = o.InstanceUID
	return &virtv1.VirtualMachine{
		TypeMeta:   metav1.TypeMeta{APIVersion: virtv1.GroupVersion.String(), Kind: "VirtualMachine"},
		ObjectMeta: meta,
		Spec: virtv1.VirtualMachineSpec{
			RunStrategy: ptr.To(virtv1.RunStrategyAlways),
			Template: &virtv1.VirtualMachineInstanceTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: inner},
				Spec: virtv1.VirtualMachineInstanceSpec{
					Architecture:     o.Arch,
					NodeSelector:     o.nodes(),
					EvictionStrategy: ptr.To(virtv1.EvictionStrategyNone),
					// The cluster is thrown away: nobody waits for a clean shutdown.
					TerminationGracePeriodSeconds: ptr.To(int64(0)),
					Domain:                        o.domain(),
					Networks:                      []virtv1.Network{*virtv1.DefaultPodNetwork()},
					Volumes: []virtv1.Volume{{Name: diskName, VolumeSource: virtv1.VolumeSource{
						DataVolume: &virtv1.DataVolumeSource{Name: o.Name},
					}}},
					ReadinessProbe: readiness(),
				},
			},
		},
	}
}

// domain leaves the CPU model to the cluster: KubeVirt's default is the
// host's model on amd64, where passthrough would bind a stopped guest to the
// features of its first node, and passthrough on arm64, which knows no other.
func (o *Options) domain() virtv1.DomainSpec {
	return virtv1.DomainSpec{
		Machine: &virtv1.Machine{Type: machines[o.Arch]},
		CPU:     &virtv1.CPU{Cores: uint32(o.Cores)},
		Memory:  &virtv1.Memory{Guest: ptr.To(resource.MustParse(o.Memory))},
		Firmware: &virtv1.Firmware{Bootloader: &virtv1.Bootloader{
			EFI: &virtv1.EFI{SecureBoot: ptr.To(false)},
		}},
		Clock: &virtv1.Clock{ClockOffset: virtv1.ClockOffset{UTC: &virtv1.ClockOffsetUTC{}}},
		Devices: virtv1.Devices{
			Rng:                  &virtv1.Rng{},
			AutoattachMemBalloon: ptr.To(false),
			Disks: []virtv1.Disk{{Name: diskName, BootOrder: ptr.To(uint(1)), DiskDevice: virtv1.DiskDevice{
				Disk: &virtv1.DiskTarget{Bus: virtv1.DiskBusVirtio},
			}}},
			// Without a list of ports all of them reach the guest.
			Interfaces: []virtv1.Interface{{Name: networkName, Model: virtv1.VirtIO,
				InterfaceBindingMethod: virtv1.InterfaceBindingMethod{Masquerade: &virtv1.InterfaceMasquerade{}}}},
		},
	}
}

func (o *Options) nodes() map[string]string {
	nodes, _ := labels.ConvertSelectorToLabelsMap(o.NodeSelector) // validate has seen it
	selector := map[string]string{corev1.LabelArchStable: o.Arch}
	maps.Copy(selector, nodes)
	return selector
}

// readiness keeps the Service from naming a guest whose API does not listen.
// SSH goes to the pod's address and needs no readiness.
func readiness() *virtv1.Probe {
	return &virtv1.Probe{
		Handler:       virtv1.Handler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(apiPort)}},
		PeriodSeconds: 5, TimeoutSeconds: 3, FailureThreshold: 3, SuccessThreshold: 1,
	}
}
