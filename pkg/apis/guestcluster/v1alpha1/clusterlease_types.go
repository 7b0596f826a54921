package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ClusterLease asks for one cluster of a pool and holds it until release.
//
// +genclient
// +genreconciler:krshapedlogic=false
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=clease,categories=guestcluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.spec.poolRef.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Instance",type=string,JSONPath=`.status.instanceRef.name`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.ocpVersion`
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.status.expiresAt`
// +kubebuilder:printcolumn:name="Queue",type=integer,priority=1,JSONPath=`.status.queuePosition`
// +kubebuilder:printcolumn:name="Holder",type=string,priority=1,JSONPath=`.spec.holderRef.name`
// +kubebuilder:printcolumn:name="Requested-By",type=string,priority=1,JSONPath=`.spec.requestedBy`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Bound")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 200",message="a lease's name may have at most 200 characters"
type ClusterLease struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ClusterLeaseSpec   `json:"spec"`
	Status ClusterLeaseStatus `json:"status,omitempty"`
}

// ClusterLeaseSpec is immutable but for ttl (added or raised) and release (set once).
//
// +kubebuilder:validation:XValidation:rule="self.poolRef == oldSelf.poolRef",message="poolRef is immutable: make another lease"
// +kubebuilder:validation:XValidation:rule="has(self.requestedBy) == has(oldSelf.requestedBy) && (!has(self.requestedBy) || self.requestedBy == oldSelf.requestedBy)",message="requestedBy is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.priority) == has(oldSelf.priority) && (!has(self.priority) || self.priority == oldSelf.priority)",message="priority is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.acquireTimeout) == has(oldSelf.acquireTimeout) && (!has(self.acquireTimeout) || self.acquireTimeout == oldSelf.acquireTimeout)",message="acquireTimeout is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.holderRef) == has(oldSelf.holderRef) && (!has(self.holderRef) || self.holderRef == oldSelf.holderRef)",message="holderRef is immutable"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.ttl) || (has(self.ttl) && duration(self.ttl) >= duration(oldSelf.ttl))",message="ttl may be added or raised, never lowered or removed"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.release) || !oldSelf.release || (has(self.release) && self.release)",message="release cannot be taken back"
type ClusterLeaseSpec struct {
	// PoolRef names the pool. Immutable.
	PoolRef PoolReference `json:"poolRef"`
	// TTL counts from the binding; the lease ends when it is over.
	// +optional
	TTL *Duration `json:"ttl,omitempty"`
	// RequestedBy says who asked, for people.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	RequestedBy string `json:"requestedBy,omitempty"`
	// Priority: a higher one is served first, up to the pool's maxPriority.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Priority int32 `json:"priority,omitempty"`
	// AcquireTimeout ends the lease when it was not bound in that time from its creation.
	// +optional
	AcquireTimeout *Duration `json:"acquireTimeout,omitempty"`
	// HolderRef is the PipelineRun the lease serves; the lease ends with it.
	// +optional
	HolderRef *HolderReference `json:"holderRef,omitempty"`
	// Release gives the cluster back. It cannot be taken back.
	// +optional
	Release bool `json:"release,omitempty"`
}

// HolderReference names the PipelineRun, in the lease's namespace, that a lease serves.
type HolderReference struct {
	// APIVersion is tekton.dev/v1.
	// +kubebuilder:validation:Enum=tekton.dev/v1
	APIVersion string `json:"apiVersion"`
	// Kind is PipelineRun.
	// +kubebuilder:validation:Enum=PipelineRun
	Kind string `json:"kind"`
	// Name of the PipelineRun.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// UID of the PipelineRun.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	UID types.UID `json:"uid"`
}

// LeasePhase sums up a lease's life.
// +kubebuilder:validation:Enum=Pending;Bound;Releasing;Released;Failed
type LeasePhase string

const (
	// LeasePending waits for an instance.
	LeasePending LeasePhase = "Pending"
	// LeaseBound holds an instance whose kubeconfig is in the access Secret.
	LeaseBound LeasePhase = "Bound"
	// LeaseReleasing is giving its instance back.
	LeaseReleasing LeasePhase = "Releasing"
	// LeaseReleased ended after having been bound, or was released while it waited.
	LeaseReleased LeasePhase = "Released"
	// LeaseFailed ended without ever being bound, or lost its instance.
	LeaseFailed LeasePhase = "Failed"
)

// ClusterLeaseStatus is the observed lease.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.boundTime) || (has(self.boundTime) && self.boundTime == oldSelf.boundTime && has(self.instanceRef) && self.instanceRef == oldSelf.instanceRef)",message="boundTime and instanceRef are immutable from Bound on"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.phase) || !(oldSelf.phase in ['Released', 'Failed']) || (has(self.phase) && self.phase == oldSelf.phase)",message="an ended lease stays ended"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.phase) || oldSelf.phase != 'Releasing' || (has(self.phase) && self.phase in ['Releasing', 'Released', 'Failed'])",message="a lease that is being released cannot be bound again"
// +kubebuilder:validation:XValidation:rule="!has(self.phase) || self.phase != 'Bound' || (has(self.instanceRef) && has(self.boundTime) && has(self.kubeconfigSecretRef))",message="Bound needs instanceRef, boundTime and kubeconfigSecretRef"
type ClusterLeaseStatus struct {
	// ObservedGeneration is the generation this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase of the lease.
	// +optional
	Phase LeasePhase `json:"phase,omitempty"`
	// InstanceRef is the instance; written before the claim, immutable from Bound on.
	// +optional
	InstanceRef *ObjectReference `json:"instanceRef,omitempty"`
	// KubeconfigSecretRef names the Secret <lease>-access in the lease's namespace.
	// +optional
	KubeconfigSecretRef *LocalReference `json:"kubeconfigSecretRef,omitempty"`
	// OCPVersion of the cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	OCPVersion string `json:"ocpVersion,omitempty"`
	// Topology of the cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Topology string `json:"topology,omitempty"`
	// APIEndpoint is the external https URL of the cluster's API.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	APIEndpoint string `json:"apiEndpoint,omitempty"`
	// ClaimedTime is when instanceRef was written.
	// +optional
	ClaimedTime *metav1.Time `json:"claimedTime,omitempty"`
	// BoundTime is when the lease became Bound.
	// +optional
	BoundTime *metav1.Time `json:"boundTime,omitempty"`
	// ExpiresAt is boundTime plus the effective ttl.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`
	// EndedTime is when the lease was Released or Failed; it stays readable for an hour.
	// +optional
	EndedTime *metav1.Time `json:"endedTime,omitempty"`
	// EffectiveTTL is spec.ttl or the pool's default, capped by its maximum.
	// +optional
	EffectiveTTL *Duration `json:"effectiveTTL,omitempty"`
	// EffectivePriority is spec.priority capped by the pool's maxPriority.
	// +optional
	EffectivePriority int32 `json:"effectivePriority,omitempty"`
	// QueuePosition counts from 1 among the leases that wait for the pool.
	// +optional
	QueuePosition int32 `json:"queuePosition,omitempty"`
	// QueuePositionTime is when queuePosition was true.
	// +optional
	QueuePositionTime *metav1.Time `json:"queuePositionTime,omitempty"`
	// Conditions: Bound, and Ready which mirrors it.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ClusterLeaseList is a list of ClusterLeases.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type ClusterLeaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []ClusterLease `json:"items"`
}
