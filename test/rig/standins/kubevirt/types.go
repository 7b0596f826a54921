package kubevirt

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/test/rig/standins/objects"
)

// Where the kinds are.
var (
	group     = schema.GroupVersion{Group: "kubevirt.io", Version: "v1"}
	Machines  = group.WithResource("virtualmachines")
	Instances = group.WithResource("virtualmachineinstances")

	machineKind  = group.WithKind("VirtualMachine")
	instanceKind = group.WithKind("VirtualMachineInstance")
)

// Run strategies.
const (
	always         = "Always"
	halted         = "Halted"
	rerunOnFailure = "RerunOnFailure"
	once           = "Once"
)

// Phases of an instance.
const (
	pending    = "Pending"
	scheduling = "Scheduling"
	scheduled  = "Scheduled"
	running    = "Running"
	succeeded  = "Succeeded"
	failed     = "Failed"
)

const (
	machineFinalizer  = "kubevirt.io/virtualMachineControllerFinalize"
	instanceFinalizer = "kubevirt.io/foregroundDeleteVirtualMachine"
	labelApp          = "kubevirt.io"
	labelCreatedBy    = "kubevirt.io/created-by"
	labelNode         = "kubevirt.io/nodeName"
	annotationDomain  = "kubevirt.io/domain"
	// annotationTemporary marks a pod that only makes claims bind.
	annotationTemporary = "kubevirt.io/ephemeral-provisioning"
)

type machine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              machineSpec   `json:"spec"`
	Status            machineStatus `json:"status,omitempty"`
}

type machineSpec struct {
	Running     *bool  `json:"running,omitempty"`
	RunStrategy string `json:"runStrategy,omitempty"`
	Template    struct {
		Spec instanceSpec `json:"spec"`
	} `json:"template"`
}

func (m *machine) strategy() string {
	switch {
	case m.Spec.RunStrategy != "":
		return m.Spec.RunStrategy
	case m.Spec.Running != nil && *m.Spec.Running:
		return always
	}
	return halted
}

type machineStatus struct {
	Created             bool                `json:"created,omitempty"`
	Ready               bool                `json:"ready,omitempty"`
	PrintableStatus     string              `json:"printableStatus,omitempty"`
	RunStrategy         string              `json:"runStrategy,omitempty"`
	ObservedGeneration  int64               `json:"observedGeneration,omitempty"`
	DesiredGeneration   int64               `json:"desiredGeneration,omitempty"`
	Conditions          []objects.Condition `json:"conditions,omitempty"`
	StartFailure        *startFailure       `json:"startFailure,omitempty"`
	StateChangeRequests []stateChange       `json:"stateChangeRequests,omitempty"`
}

type startFailure struct {
	Count          int64        `json:"consecutiveFailCount,omitempty"`
	LastFailed     types.UID    `json:"lastFailedVMIUID,omitempty"`
	RetryTimestamp *metav1.Time `json:"retryAfterTimestamp,omitempty"`
}

type stateChange struct {
	Action string `json:"action"`
}

type instance struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              instanceSpec   `json:"spec"`
	Status            instanceStatus `json:"status,omitempty"`
}

type instanceSpec struct {
	Domain         domain              `json:"domain"`
	Hostname       string              `json:"hostname,omitempty"`
	Architecture   string              `json:"architecture,omitempty"`
	NodeSelector   map[string]string   `json:"nodeSelector,omitempty"`
	Tolerations    []corev1.Toleration `json:"tolerations,omitempty"`
	Affinity       *corev1.Affinity    `json:"affinity,omitempty"`
	GraceSeconds   *int64              `json:"terminationGracePeriodSeconds,omitempty"`
	ReadinessProbe *corev1.Probe       `json:"readinessProbe,omitempty"`
	Volumes        []volume            `json:"volumes,omitempty"`
}

type domain struct {
	CPU struct {
		Cores   int64 `json:"cores,omitempty"`
		Sockets int64 `json:"sockets,omitempty"`
		Threads int64 `json:"threads,omitempty"`
	} `json:"cpu,omitempty"`
	Memory struct {
		Guest *resource.Quantity `json:"guest,omitempty"`
	} `json:"memory,omitempty"`
	Resources struct {
		Requests corev1.ResourceList `json:"requests,omitempty"`
	} `json:"resources,omitempty"`
	Devices struct {
		Interfaces []device `json:"interfaces,omitempty"`
	} `json:"devices,omitempty"`
}

type named struct {
	Name string `json:"name"`
}

type device struct {
	Name string `json:"name"`
	MAC  string `json:"macAddress,omitempty"`
}

type volume struct {
	Name       string `json:"name"`
	DataVolume *named `json:"dataVolume,omitempty"`
	Claim      *struct {
		Name string `json:"claimName"`
	} `json:"persistentVolumeClaim,omitempty"`
}

// claim is the name of the claim below a volume, or empty.
func (v volume) claim() string {
	switch {
	case v.DataVolume != nil:
		return v.DataVolume.Name
	case v.Claim != nil:
		return v.Claim.Name
	}
	return ""
}

type instanceStatus struct {
	Phase       string               `json:"phase,omitempty"`
	NodeName    string               `json:"nodeName,omitempty"`
	Interfaces  []address            `json:"interfaces,omitempty"`
	Conditions  []objects.Condition  `json:"conditions,omitempty"`
	ActivePods  map[types.UID]string `json:"activePods,omitempty"`
	Transitions []transition         `json:"phaseTransitionTimestamps,omitempty"`
}

type transition struct {
	Phase string       `json:"phase"`
	Time  *metav1.Time `json:"phaseTransitionTimestamp"`
}

type address struct {
	Name       string   `json:"name,omitempty"`
	IP         string   `json:"ipAddress,omitempty"`
	IPs        []string `json:"ipAddresses,omitempty"`
	MAC        string   `json:"mac,omitempty"`
	Source     string   `json:"infoSource,omitempty"`
	Link       string   `json:"linkState,omitempty"`
	PodDevice  string   `json:"podInterfaceName,omitempty"`
	QueueCount int64    `json:"queueCount,omitempty"`
}

func (i *instance) final() bool {
	return i.Status.Phase == succeeded || i.Status.Phase == failed
}

func (i *instance) unprocessed() bool { return i.Status.Phase == "" || i.Status.Phase == pending }

// ran tells whether the instance ever reached Running.
func (i *instance) ran() bool {
	for _, t := range i.Status.Transitions {
		if t.Phase == running {
			return true
		}
	}
	return false
}
