package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ClusterType is the topology of a pool's clusters. The topologies hcp and
// host are refused until they exist.
// +kubebuilder:validation:Enum=crc;custom
type ClusterType string

const (
	// TypeCRC is an OpenShift Local VM on KubeVirt.
	TypeCRC ClusterType = "crc"
	// TypeCustom is whatever the Pipeline in spec.provisioning.pipeline makes.
	TypeCustom ClusterType = "custom"
)

// Duration is a positive Go duration such as 90m or 1h30m. The API server
// refuses what time.ParseDuration refuses, so that no stored object can break
// a typed client.
// +kubebuilder:validation:Type=string
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be a positive duration such as 90m or 2h"
type Duration struct {
	metav1.Duration `json:"-"`
}

// LocalReference names an object in the namespace of the object that refers to it.
type LocalReference struct {
	// Name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// ClusterTemplate says what an instance is made from.
type ClusterTemplate struct {
	// CRCVersion is the OpenShift Local bundle version, such as 4.19.3 (crc). It wins: beside it,
	// releaseImage and bundleSSHKeyRef are ignored.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[0-9]+\.[0-9]+\.[0-9]+([-.+][0-9A-Za-z.-]+)?$`
	CRCVersion string `json:"crcVersion,omitempty"`
	// CRCArch is the architecture of the bundle; default amd64 (crc).
	// +optional
	// +kubebuilder:validation:Enum=amd64;arm64
	CRCArch string `json:"crcArch,omitempty"`
	// ReleaseImage is the URL of a disk image extracted from a bundle; ignored beside crcVersion (crc). Serve it by
	// https:// or docker://: by http:// anybody on the way may put another disk in its place, for nothing checks it.
	// A user and password in it are refused.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^([A-Za-z][A-Za-z0-9+.-]*://[^\s/?#@\\]+([/?#]\S*)?|[^\s/?#@\\]+(/[^\s/?#\\]\S*)?)$`
	ReleaseImage string `json:"releaseImage,omitempty"`
	// OCPVersion is the version CI expects; another one is reported as condition VersionMismatch.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	OCPVersion string `json:"ocpVersion,omitempty"`
	// Memory of the cluster's machine; default 14Gi (crc).
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? (self.size() <= 32 && self.matches('^[+]?[0-9.]+([eE][+-]?[0-9]{1,2}|[A-Za-z]*)$') && isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))) : int(self) > 0",message="must be a positive quantity such as 14Gi"
	Memory *resource.Quantity `json:"memory,omitempty"`
	// Cores of the cluster's machine; default 4 (crc).
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=512
	Cores int32 `json:"cores,omitempty"`
	// RootVolumeSize is the size of the root disk; default 80Gi (crc).
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? (self.size() <= 32 && self.matches('^[+]?[0-9.]+([eE][+-]?[0-9]{1,2}|[A-Za-z]*)$') && isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))) : int(self) > 0",message="must be a positive quantity such as 14Gi"
	RootVolumeSize *resource.Quantity `json:"rootVolumeSize,omitempty"`
	// StorageClassName of the root disk; default is the cluster's default class.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClassName string `json:"storageClassName,omitempty"`
	// VMNodeSelector is the node selector of the cluster's machine.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	VMNodeSelector map[string]LabelValue `json:"vmNodeSelector,omitempty"`
	// PullSecretRef names a Secret with key .dockerconfigjson in the pool's namespace; default pull-secret (crc).
	// +optional
	PullSecretRef *LocalReference `json:"pullSecretRef,omitempty"`
	// BundleSSHKeyRef names a Secret with key id_ecdsa in the pool's namespace; ignored beside crcVersion (crc).
	// +optional
	BundleSSHKeyRef *LocalReference `json:"bundleSSHKeyRef,omitempty"`
	// Params are handed to the Pipeline (custom).
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Params map[string]ParamValue `json:"params,omitempty"`
}

// LabelValue is the value of a label.
// +kubebuilder:validation:MaxLength=63
type LabelValue string

// ParamValue is the value of a Pipeline param of type string.
// +kubebuilder:validation:MaxLength=4096
type ParamValue string

// PoolReference names a pool; for a lease the namespace defaults to its own.
type PoolReference struct {
	// Name of the ClusterPool.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// Namespace of the ClusterPool; default is the lease's own.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	Namespace string `json:"namespace,omitempty"`
}

// OwnerPool is the pool an instance was made for.
type OwnerPool struct {
	// Name of the ClusterPool, in the instance's namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	Name string `json:"name"`
	// UID of the ClusterPool.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	UID types.UID `json:"uid"`
}

// ObjectReference names one object by identity.
type ObjectReference struct {
	// Namespace of the object.
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// Name of the object.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// UID of the object.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	UID types.UID `json:"uid"`
}

// FailureStatus is the diagnosis of a failed provisioning run. Its texts are redacted.
type FailureStatus struct {
	// Instance is the name of the failed instance.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Instance string `json:"instance,omitempty"`
	// InstanceUID is the UID of the failed instance.
	// +kubebuilder:validation:Type=string
	// +optional
	// +kubebuilder:validation:MaxLength=64
	InstanceUID types.UID `json:"instanceUID,omitempty"`
	// Reason is the reason of the instance's Ready condition.
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason"`
	// Run is the name of the PipelineRun.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Run string `json:"run,omitempty"`
	// Task is the name of the pipeline task that failed.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Task string `json:"task,omitempty"`
	// Step is the name of the step that failed.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Step string `json:"step,omitempty"`
	// ExitCode of the failed step: 10 user error, 11 infrastructure error, 12 timeout.
	// +optional
	ExitCode int32 `json:"exitCode,omitempty"`
	// Message is what went wrong.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`
	// Time of the failure.
	// +optional
	Time metav1.Time `json:"time,omitempty"`
}

// RunStatus names the current provisioning run of an instance.
type RunStatus struct {
	// Name of the PipelineRun.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// UID of the PipelineRun; empty until it was created.
	// +kubebuilder:validation:Type=string
	// +optional
	// +kubebuilder:validation:MaxLength=64
	UID types.UID `json:"uid,omitempty"`
	// Attempt counts from 0; it grows when a run vanished or was cancelled by others.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// StartedAt is when the first attempt was created.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
}
