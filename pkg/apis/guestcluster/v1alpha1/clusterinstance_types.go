package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ClusterInstance is one disposable cluster. It serves at most one lease, ever.
//
// +genclient
// +genreconciler:krshapedlogic=false
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=cinst,categories=guestcluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.ocpVersion`
// +kubebuilder:printcolumn:name="Lease",type=string,JSONPath=`.spec.claimRef.leaseName`
// +kubebuilder:printcolumn:name="Lease-Namespace",type=string,priority=1,JSONPath=`.spec.claimRef.leaseNamespace`
// +kubebuilder:printcolumn:name="Endpoint",type=string,priority=1,JSONPath=`.status.apiEndpoint`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterInstance struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ClusterInstanceSpec   `json:"spec"`
	Status ClusterInstanceStatus `json:"status,omitempty"`
}

// ClusterInstanceSpec is immutable but for claimRef, which is set once.
//
// +kubebuilder:validation:XValidation:rule="self.type == oldSelf.type",message="type is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.poolRef) == has(oldSelf.poolRef) && (!has(self.poolRef) || self.poolRef == oldSelf.poolRef)",message="poolRef is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.slot) == has(oldSelf.slot) && (!has(self.slot) || self.slot == oldSelf.slot)",message="slot is immutable"
// +kubebuilder:validation:XValidation:rule="self.template == oldSelf.template",message="template is immutable: delete the instance and make another"
// +kubebuilder:validation:XValidation:rule="has(self.provisioning) == has(oldSelf.provisioning) && (!has(self.provisioning) || self.provisioning == oldSelf.provisioning)",message="provisioning is immutable"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.claimRef) || (has(self.claimRef) && self.claimRef == oldSelf.claimRef)",message="claimRef is set once: an instance serves one lease, ever"
// +kubebuilder:validation:XValidation:rule="has(self.poolRef) == has(self.slot)",message="poolRef and slot go together"
// +kubebuilder:validation:XValidation:rule="self.type != 'custom' || (has(self.provisioning) && has(self.provisioning.pipeline))",message="type custom needs provisioning.pipeline"
// +kubebuilder:validation:XValidation:rule="self.type != 'crc' || has(self.template.crcVersion) || (has(self.template.releaseImage) && has(self.template.bundleSSHKeyRef))",message="type crc needs template.crcVersion, or template.releaseImage with template.bundleSSHKeyRef"
// +kubebuilder:validation:XValidation:rule="self.type == 'custom' || !has(self.template.params)",message="template.params is for type custom only"
type ClusterInstanceSpec struct {
	// Type is the topology.
	Type ClusterType `json:"type"`
	// PoolRef is the pool the instance was made for; unset for a standalone one.
	// +optional
	PoolRef *OwnerPool `json:"poolRef,omitempty"`
	// Slot is the instance's number in its pool, from 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=499
	Slot *int32 `json:"slot,omitempty"`
	// Provisioning says how the instance is made; its retryLimit is not used.
	// +optional
	Provisioning *Provisioning `json:"provisioning,omitempty"`
	// Template says what the instance is made from.
	Template ClusterTemplate `json:"template"`
	// ClaimRef is the one lease this instance serves. Written once by the controller.
	// +optional
	ClaimRef *ClaimReference `json:"claimRef,omitempty"`
}

// ClaimReference names the lease that an instance serves.
type ClaimReference struct {
	// LeaseNamespace is the lease's namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	LeaseNamespace string `json:"leaseNamespace"`
	// LeaseName is the lease's name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	LeaseName string `json:"leaseName"`
	// LeaseUID is the lease's UID.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	LeaseUID types.UID `json:"leaseUID"`
}

// InstancePhase sums up the conditions for people.
// +kubebuilder:validation:Enum=Provisioning;Ready;Failed;Terminating
type InstancePhase string

const (
	// InstanceProvisioning means that the cluster is being made.
	InstanceProvisioning InstancePhase = "Provisioning"
	// InstanceReady means that provisioning ended well; condition Ready says whether it can be handed out now.
	InstanceReady InstancePhase = "Ready"
	// InstanceFailed means that the cluster will never be Ready.
	InstanceFailed InstancePhase = "Failed"
	// InstanceTerminating means that the cluster is being destroyed.
	InstanceTerminating InstancePhase = "Terminating"
)

// ClusterInstanceStatus is the observed cluster.
type ClusterInstanceStatus struct {
	// ObservedGeneration is the generation this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase is derived from conditions.
	// +optional
	Phase InstancePhase `json:"phase,omitempty"`
	// OCPVersion is the version the guest reports.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	OCPVersion string `json:"ocpVersion,omitempty"`
	// Topology is the type, for CI to read.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Topology string `json:"topology,omitempty"`
	// APIEndpoint is the external URL of the guest API, https://api-<part of the name>-<16 hex>.<ingress domain>;
	// assigned before provisioning and kept for life.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	APIEndpoint string `json:"apiEndpoint,omitempty"`
	// KubeconfigSecretRef names the Secret with the kubeconfig, in the instance's namespace.
	// +optional
	KubeconfigSecretRef *LocalReference `json:"kubeconfigSecretRef,omitempty"`
	// LeaseRef repeats spec.claimRef for people.
	// +optional
	LeaseRef *ObjectReference `json:"leaseRef,omitempty"`
	// ReadyTime is when the instance first became Ready.
	// +optional
	ReadyTime *metav1.Time `json:"readyTime,omitempty"`
	// Run is the current provisioning run.
	// +optional
	Run *RunStatus `json:"run,omitempty"`
	// Failure says why the instance is Failed.
	// +optional
	Failure *FailureStatus `json:"failure,omitempty"`
	// CRC is what the instance is made of (crc).
	// +optional
	CRC *CRCStatus `json:"crc,omitempty"`
	// Conditions: Ready, Provisioned, GuestAPIReachable, VersionMismatch, ProvisioningAllowed, Deleting.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// CRCStatus names what a crc instance is made of.
type CRCStatus struct {
	// VMName is the name of the VirtualMachine.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	VMName string `json:"vmName,omitempty"`
	// DataVolumeName is the name of the root disk's DataVolume and PersistentVolumeClaim.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	DataVolumeName string `json:"dataVolumeName,omitempty"`
	// VMIUID is the UID of the VirtualMachineInstance that runs now; it changes when the VM restarts.
	// +kubebuilder:validation:Type=string
	// +optional
	// +kubebuilder:validation:MaxLength=64
	VMIUID types.UID `json:"vmiUID,omitempty"`
	// Bundle is what the disk was cloned from, chosen before anything was made.
	// +optional
	Bundle *BundleIdentity `json:"bundle,omitempty"`
}

// BundleIdentity is a CRCBundle as it was when a disk was cloned from it.
type BundleIdentity struct {
	// Name of the CRCBundle.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// UID of the CRCBundle.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	UID types.UID `json:"uid"`
	// VolumeUID is the UID of the golden volume's PersistentVolumeClaim.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	VolumeUID types.UID `json:"volumeUID"`
	// SHA256 of the bundle file.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	SHA256 string `json:"sha256,omitempty"`
}

// ClusterInstanceList is a list of ClusterInstances.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type ClusterInstanceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []ClusterInstance `json:"items"`
}
