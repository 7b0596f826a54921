package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterPool keeps a supply of interchangeable clusters for leases.
//
// +genclient
// +genreconciler:krshapedlogic=false
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=cpool,categories=guestcluster
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.warmSpares,statuspath=.status.availableInstances
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableInstances`
// +kubebuilder:printcolumn:name="Leased",type=integer,JSONPath=`.status.leasedInstances`
// +kubebuilder:printcolumn:name="Total",type=integer,JSONPath=`.status.totalInstances`
// +kubebuilder:printcolumn:name="Max",type=integer,JSONPath=`.spec.maxSize`
// +kubebuilder:printcolumn:name="Waiting",type=integer,JSONPath=`.status.pendingLeases`
// +kubebuilder:printcolumn:name="Provisioning",type=integer,priority=1,JSONPath=`.status.provisioningInstances`
// +kubebuilder:printcolumn:name="Failed",type=integer,priority=1,JSONPath=`.status.failedInstances`
// +kubebuilder:printcolumn:name="Failures",type=integer,priority=1,JSONPath=`.status.consecutiveFailures`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 40",message="a pool's name may have at most 40 characters"
type ClusterPool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ClusterPoolSpec   `json:"spec"`
	Status ClusterPoolStatus `json:"status,omitempty"`
}

// ClusterPoolSpec is the wanted supply.
//
// +kubebuilder:validation:XValidation:rule="self.type == oldSelf.type",message="type is immutable: make another pool"
// +kubebuilder:validation:XValidation:rule="self.minSize <= self.maxSize",message="minSize may not exceed maxSize"
// +kubebuilder:validation:XValidation:rule="self.warmSpares <= self.maxSize",message="warmSpares may not exceed maxSize"
// +kubebuilder:validation:XValidation:rule="self.type != 'custom' || (has(self.provisioning) && has(self.provisioning.pipeline))",message="type custom needs provisioning.pipeline"
// +kubebuilder:validation:XValidation:rule="self.type != 'crc' || has(self.template.crcVersion) || (has(self.template.releaseImage) && has(self.template.bundleSSHKeyRef))",message="type crc needs template.crcVersion, or template.releaseImage with template.bundleSSHKeyRef"
// +kubebuilder:validation:XValidation:rule="self.type != 'custom' || !(has(self.template.crcVersion) || has(self.template.crcArch) || has(self.template.releaseImage) || has(self.template.bundleSSHKeyRef))",message="template.crcVersion, crcArch, releaseImage and bundleSSHKeyRef are for type crc only: hand values to a custom Pipeline through template.params"
// +kubebuilder:validation:XValidation:rule="self.type == 'custom' || !has(self.template.params)",message="template.params is for type custom only"
type ClusterPoolSpec struct {
	// Type is the topology of the clusters. Immutable.
	Type ClusterType `json:"type"`
	// MinSize is the least number of instances, claimed ones included.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=500
	MinSize int32 `json:"minSize"`
	// WarmSpares is the number of Ready unclaimed instances to keep ahead of demand.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=500
	WarmSpares int32 `json:"warmSpares"`
	// MaxSize is the hypervisor budget: it counts every instance object, terminating ones too.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=500
	MaxSize int32 `json:"maxSize"`
	// MaxConcurrent is how many instances may provision at one time.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=500
	MaxConcurrent int32 `json:"maxConcurrent"`
	// Paused stops creation and scale-down; leases still bind to Ready instances and release still works.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// AllowedNamespaces selects the namespaces whose leases may use the pool; default is the pool's own only.
	// +optional
	AllowedNamespaces *NamespaceSelector `json:"allowedNamespaces,omitempty"`
	// UpdateStrategy says what happens to unclaimed instances whose template is stale.
	// +optional
	// +kubebuilder:default=OnReplenish
	UpdateStrategy UpdateStrategy `json:"updateStrategy,omitempty"`
	// SpareMaxAge is the age, from its Ready, at which an unclaimed instance is replaced; default 480h for crc, none for custom.
	// +optional
	SpareMaxAge *Duration `json:"spareMaxAge,omitempty"`
	// Lease holds limits and defaults of the pool's leases.
	// +optional
	Lease *LeasePolicy `json:"lease,omitempty"`
	// Provisioning says how instances are made.
	// +optional
	Provisioning *Provisioning `json:"provisioning,omitempty"`
	// Template says what an instance is made from.
	Template ClusterTemplate `json:"template"`
}

// UpdateStrategy says what happens to unclaimed instances whose template is
// stale: OnReplenish replaces them one at a time while nothing waits, Recreate
// at once, and never hands them out.
// +kubebuilder:validation:Enum=OnReplenish;Recreate
type UpdateStrategy string

const (
	// UpdateOnReplenish replaces stale spares one at a time when nothing waits.
	UpdateOnReplenish UpdateStrategy = "OnReplenish"
	// UpdateRecreate replaces stale spares at once.
	UpdateRecreate UpdateStrategy = "Recreate"
)

// NamespaceSelector is a label selector over namespaces; an empty one selects all.
type NamespaceSelector struct {
	// MatchLabels must all be present.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`
	// MatchExpressions must all hold.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	MatchExpressions []NamespaceRequirement `json:"matchExpressions,omitempty"`
}

// NamespaceRequirement is one expression of a NamespaceSelector.
//
// +kubebuilder:validation:XValidation:rule="(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",message="In and NotIn need values; Exists and DoesNotExist take none"
type NamespaceRequirement struct {
	// Key of the label.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`
	// Operator relates key and values.
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	Operator metav1.LabelSelectorOperator `json:"operator"`
	// Values for In and NotIn.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	Values []LabelValue `json:"values,omitempty"`
}

// LeasePolicy holds limits and defaults of a pool's leases.
//
// +kubebuilder:validation:XValidation:rule="!has(self.defaultTTL) || !has(self.maxTTL) || duration(self.defaultTTL) <= duration(self.maxTTL)",message="defaultTTL may not exceed maxTTL"
type LeasePolicy struct {
	// DefaultTTL is the ttl of a lease that names none.
	// +optional
	DefaultTTL *Duration `json:"defaultTTL,omitempty"`
	// MaxTTL caps every ttl.
	// +optional
	MaxTTL *Duration `json:"maxTTL,omitempty"`
	// MaxPending is how long a lease may wait at most.
	// +optional
	MaxPending *Duration `json:"maxPending,omitempty"`
	// MaxPriority caps every priority.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	MaxPriority int32 `json:"maxPriority,omitempty"`
	// MaxPerNamespace is how many instances the leases of one namespace may hold
	// at a time; no limit when absent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=500
	MaxPerNamespace int32 `json:"maxPerNamespace,omitempty"`
}

// Provisioning says how instances are made.
type Provisioning struct {
	// Timeout of one instance's provisioning, over all attempts.
	// +optional
	// +kubebuilder:default="60m"
	Timeout *Duration `json:"timeout,omitempty"`
	// RetryLimit is how many failures in a row open the breaker.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	RetryLimit int32 `json:"retryLimit,omitempty"`
	// Pipeline in the controller's namespace; default provision-<type>, required for custom.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Pipeline string `json:"pipeline,omitempty"`
}

// ClusterPoolStatus is the observed supply.
type ClusterPoolStatus struct {
	// ObservedGeneration is the generation this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// TotalInstances counts every instance object of the pool.
	// +optional
	TotalInstances int32 `json:"totalInstances"`
	// ReadyInstances counts those with condition Ready, claimed ones too.
	// +optional
	ReadyInstances int32 `json:"readyInstances"`
	// AvailableInstances counts those a lease can get now.
	// +optional
	AvailableInstances int32 `json:"availableInstances"`
	// LeasedInstances counts claimed ones that are not terminating.
	// +optional
	LeasedInstances int32 `json:"leasedInstances"`
	// ProvisioningInstances counts those not yet provisioned.
	// +optional
	ProvisioningInstances int32 `json:"provisioningInstances"`
	// TerminatingInstances counts those being destroyed.
	// +optional
	TerminatingInstances int32 `json:"terminatingInstances"`
	// FailedInstances counts failed ones.
	// +optional
	FailedInstances int32 `json:"failedInstances"`
	// PendingLeases counts leases that wait for an instance of this pool.
	// +optional
	PendingLeases int32 `json:"pendingLeases"`
	// ConsecutiveFailures counts failed instances since the last success.
	// +optional
	ConsecutiveFailures int32 `json:"consecutiveFailures"`
	// NextAttemptTime is when the open breaker lets the next instance through.
	// +optional
	NextAttemptTime *metav1.Time `json:"nextAttemptTime,omitempty"`
	// SurplusSince is when the pool began to have more spares than wanted.
	// +optional
	SurplusSince *metav1.Time `json:"surplusSince,omitempty"`
	// LastFailure is the newest failure of an instance of this pool.
	// +optional
	LastFailure *FailureStatus `json:"lastFailure,omitempty"`
	// Conditions: Ready, CapacityAvailable, ProvisioningAllowed, ProvisioningHealthy, AllInstancesCurrent.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ClusterPoolList is a list of ClusterPools.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type ClusterPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []ClusterPool `json:"items"`
}
