package cdi

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"opdev.io/guestcluster/test/rig/standins/objects"
)

// Resource is where DataVolumes are.
var Resource = schema.GroupVersionResource{Group: "cdi.kubevirt.io", Version: "v1beta1", Resource: "datavolumes"}

var kind = schema.GroupVersionKind{Group: Resource.Group, Version: Resource.Version, Kind: "DataVolume"}

// Phases of a DataVolume.
const (
	Pending              = "Pending"
	PVCBound             = "PVCBound"
	WaitForFirstConsumer = "WaitForFirstConsumer"
	PendingPopulation    = "PendingPopulation"
	ImportScheduled      = "ImportScheduled"
	ImportInProgress     = "ImportInProgress"
	CloneScheduled       = "CloneScheduled"
	CloneInProgress      = "CloneInProgress"
	RebindInProgress     = "RebindInProgress"
	Succeeded            = "Succeeded"
	Failed               = "Failed"
)

// Conditions of a DataVolume.
const (
	Bound   = "Bound"
	Running = "Running"
	Ready   = "Ready"
)

const (
	finalizer           = "cdi.kubevirt.io/dataVolumeFinalizer"
	annotationImmediate = "cdi.kubevirt.io/storage.bind.immediate.requested"
	annotationContent   = "cdi.kubevirt.io/storage.contentType"
	annotationPopulator = "cdi.kubevirt.io/storage.usePopulator"
	annotationCloneType = "cdi.kubevirt.io/cloneType"
	annotationPodPhase  = "cdi.kubevirt.io/storage.pod.phase"
)

// DataVolume is what the stand-ins read of one.
type DataVolume struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitempty"`
}

// Spec tells the source and the target; the storage form has the fields of the
// other one as far as the stand-in cares.
type Spec struct {
	Source  *Source                           `json:"source,omitempty"`
	PVC     *corev1.PersistentVolumeClaimSpec `json:"pvc,omitempty"`
	Storage *corev1.PersistentVolumeClaimSpec `json:"storage,omitempty"`
}

// Source is one of its fields.
type Source struct {
	HTTP  *HTTPSource `json:"http,omitempty"`
	PVC   *PVCSource  `json:"pvc,omitempty"`
	Blank *struct{}   `json:"blank,omitempty"`
}

// HTTPSource is a disk image on a web server.
type HTTPSource struct {
	URL           string   `json:"url"`
	SecretRef     string   `json:"secretRef,omitempty"`
	CertConfigMap string   `json:"certConfigMap,omitempty"`
	ExtraHeaders  []string `json:"extraHeaders,omitempty"`
	Checksum      string   `json:"checksum,omitempty"`
}

// PVCSource is a claim to clone.
type PVCSource struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Status is the whole status of a DataVolume.
type Status struct {
	ClaimName    string              `json:"claimName,omitempty"`
	Phase        string              `json:"phase,omitempty"`
	Progress     string              `json:"progress,omitempty"`
	RestartCount int64               `json:"restartCount,omitempty"`
	Conditions   []objects.Condition `json:"conditions,omitempty"`
}

// target is the wanted claim in either form.
func (v *DataVolume) target() *corev1.PersistentVolumeClaimSpec {
	if v.Spec.Storage != nil {
		return v.Spec.Storage
	}
	return v.Spec.PVC
}

func (v *DataVolume) clones() bool { return v.Spec.Source != nil && v.Spec.Source.PVC != nil }

func (v *DataVolume) clonesAcrossNamespaces() bool {
	return v.clones() && v.Spec.Source.PVC.Namespace != v.Namespace
}
