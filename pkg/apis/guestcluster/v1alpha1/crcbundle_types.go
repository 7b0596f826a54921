package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CRCBundle is one OpenShift Local bundle, prepared once as a golden volume.
// It is named crc-<version>-<arch> and never deleted automatically.
//
// +genclient
// +genclient:nonNamespaced
// +genreconciler:krshapedlogic=false
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=crcb,categories=guestcluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="Arch",type=string,JSONPath=`.spec.arch`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="OCP",type=string,JSONPath=`.status.ocpVersion`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'crc-' + self.spec.version + '-' + self.spec.arch",message="the name must be crc-<version>-<arch>"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || oldSelf.status.phase == 'Pending' || self.spec == oldSelf.spec",message="spec is immutable once the bundle is Preparing: delete the bundle to prepare it anew"
type CRCBundle struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   CRCBundleSpec   `json:"spec"`
	Status CRCBundleStatus `json:"status,omitempty"`
}

// CRCBundleSpec says which bundle and where from.
type CRCBundleSpec struct {
	// Version of the bundle, such as 4.19.3.
	// +kubebuilder:validation:MinLength=5
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[0-9]+\.[0-9]+\.[0-9]+([-.+][0-9a-z.-]+)?$`
	Version string `json:"version"`
	// Arch of the bundle.
	// +optional
	// +kubebuilder:default=amd64
	// +kubebuilder:validation:Enum=amd64;arm64
	Arch string `json:"arch"`
	// BundleURL overrides the public mirror's URL of the bundle: https, without user and password.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^https://[^\s/?#@\\]+([/?#]\S*)?$`
	BundleURL string `json:"bundleURL,omitempty"`
	// SHA256URL overrides the URL of the list of checksums: https, without user and password.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^https://[^\s/?#@\\]+([/?#]\S*)?$`
	SHA256URL string `json:"sha256URL,omitempty"`
	// SHA256 is the checksum of the bundle file, in hexadecimal; it wins over the list.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	SHA256 string `json:"sha256,omitempty"`
	// StorageClassName of the golden volume; default is the cluster's default class.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClassName string `json:"storageClassName,omitempty"`
	// GoldenVolumeSize of the golden volume; default is what the disk's virtual size needs.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? (self.size() <= 32 && self.matches('^[+]?[0-9.]+([eE][+-]?[0-9]{1,2}|[A-Za-z]*)$') && isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))) : int(self) > 0",message="must be a positive quantity such as 14Gi"
	GoldenVolumeSize *resource.Quantity `json:"goldenVolumeSize,omitempty"`
}

// BundlePhase sums up a bundle's preparation.
// +kubebuilder:validation:Enum=Pending;Preparing;Ready;Failed
type BundlePhase string

const (
	// BundlePending is not being prepared yet.
	BundlePending BundlePhase = "Pending"
	// BundlePreparing has a prepare-bundle run.
	BundlePreparing BundlePhase = "Preparing"
	// BundleReady can be cloned.
	BundleReady BundlePhase = "Ready"
	// BundleFailed is retried by deleting the bundle.
	BundleFailed BundlePhase = "Failed"
)

// CRCBundleStatus is the observed preparation.
type CRCBundleStatus struct {
	// ObservedGeneration is the generation this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase of the preparation.
	// +optional
	Phase BundlePhase `json:"phase,omitempty"`
	// GoldenVolume is the PersistentVolumeClaim to clone.
	// +optional
	GoldenVolume *ObjectReference `json:"goldenVolume,omitempty"`
	// SSHKeySecretRef names the Secret with the bundle's boot key in namespace guestcluster-bundles.
	// +optional
	SSHKeySecretRef *LocalReference `json:"sshKeySecretRef,omitempty"`
	// OCPVersion in the bundle.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	OCPVersion string `json:"ocpVersion,omitempty"`
	// SHA256 of the bundle file as downloaded.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	SHA256 string `json:"sha256,omitempty"`
	// BuildTime of the bundle.
	// +optional
	BuildTime *metav1.Time `json:"buildTime,omitempty"`
	// NotAfter is when the bundle's own certificates expire; informational, the fixups renew them at boot.
	// +optional
	NotAfter *metav1.Time `json:"notAfter,omitempty"`
	// Run is the prepare-bundle run.
	// +optional
	Run *RunStatus `json:"run,omitempty"`
	// Failure says why the bundle is Failed.
	// +optional
	Failure *FailureStatus `json:"failure,omitempty"`
	// Conditions: Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// CRCBundleList is a list of CRCBundles.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type CRCBundleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []CRCBundle `json:"items"`
}
