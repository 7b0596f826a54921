package virt

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	virtv1 "kubevirt.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"opdev.io/guestcluster/pkg/steps/kube"
)

// Hint says what to do when rights or kinds are missing.
const Hint = "the ServiceAccount of the run needs ClusterRole guestcluster-provision-crc in this namespace"

// Resources that steps read or make.
var (
	DataVolumesResource = schema.GroupVersionResource{Group: "cdi.kubevirt.io", Version: "v1beta1", Resource: "datavolumes"}
	MachinesResource    = schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachines"}
	RunningResource     = schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachineinstances"}
	ClaimsResource      = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
	EventsResource      = corev1.SchemeGroupVersion.WithResource("events")
)

// Clients read and make what a virtual machine consists of, in one namespace.
type Clients struct {
	DataVolumes *kube.Objects[cdiv1.DataVolume]
	Claims      *kube.Objects[corev1.PersistentVolumeClaim]
	Events      *kube.Objects[corev1.Event]
	Machines    *kube.Objects[virtv1.VirtualMachine]
	Running     *kube.Objects[virtv1.VirtualMachineInstance]
}

// NewClients returns the clients for a namespace.
func NewClients(config *rest.Config, namespace string) (c Clients, err error) {
	if c.DataVolumes, err = kube.NewObjects[cdiv1.DataVolume](config, DataVolumesResource, namespace); err != nil {
		return c, err
	}
	if c.Claims, err = kube.NewObjects[corev1.PersistentVolumeClaim](config, ClaimsResource, namespace); err != nil {
		return c, err
	}
	if c.Events, err = kube.NewObjects[corev1.Event](config, EventsResource, namespace); err != nil {
		return c, err
	}
	if c.Machines, err = kube.NewObjects[virtv1.VirtualMachine](config, MachinesResource, namespace); err != nil {
		return c, err
	}
	c.Running, err = kube.NewObjects[virtv1.VirtualMachineInstance](config, RunningResource, namespace)
	return c, err
}
