package guest

import (
	"context"
	"fmt"
	"net/netip"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"opdev.io/guestcluster/pkg/steps/kube"
)

// Machine is where a guest runs.
type Machine struct {
	// UID is the VirtualMachineInstance's: a VM that was started anew has another.
	UID string
	// Address is how pods reach it. The guest itself has another one.
	Address string
}

// Locator finds a machine. It is asked at each connect.
type Locator interface {
	Locate(ctx context.Context) (Machine, error)
}

var machines = schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachineinstances"}

// vmi is what the step needs of a VirtualMachineInstance.
type vmi struct {
	metav1.ObjectMeta `json:"metadata"`
	Status            struct {
		Phase      string `json:"phase"`
		Interfaces []struct {
			IP string `json:"ipAddress"`
		} `json:"interfaces"`
	} `json:"status"`
}

// VMI locates a VirtualMachineInstance by its name.
type VMI struct {
	client *kube.Objects[vmi]
	name   string
}

var _ Locator = (*VMI)(nil)

// NewVMI returns a locator for a VirtualMachineInstance.
func NewVMI(config *rest.Config, namespace, name string) (*VMI, error) {
	client, err := kube.NewObjects[vmi](config, machines, namespace)
	if err != nil {
		return nil, err
	}
	return &VMI{client, name}, nil
}

// Locate reads the address and the UID together.
func (v *VMI) Locate(ctx context.Context) (Machine, error) {
	seen, err := v.client.Get(ctx, v.name)
	if apierrors.IsNotFound(err) {
		return Machine{}, fmt.Errorf("VirtualMachineInstance %s does not exist: the VM is stopped or starts anew", v.name)
	}
	if err != nil {
		return Machine{}, kube.Classify("read VirtualMachineInstance", err, "see ClusterRole guestcluster-provision-crc")
	}
	for _, i := range seen.Status.Interfaces {
		if address, err := netip.ParseAddr(i.IP); err == nil && seen.Status.Phase == "Running" {
			return Machine{UID: string(seen.UID), Address: address.String()}, nil
		}
	}
	return Machine{}, fmt.Errorf("VirtualMachineInstance %s is %s and has no address", v.name, seen.Status.Phase)
}
