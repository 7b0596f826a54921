package createdatavolume

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// keepAnnotation stops versions of CDI that delete a DataVolume once it is
// filled: the controller follows the disk by it.
const keepAnnotation = "cdi.kubevirt.io/storage.deleteAfterCompletion"

// Build is the DataVolume of these options. It stands alone, for the right to
// clone is asked of whoever creates it: in a template of the machine that
// would be the namespace's default ServiceAccount. As spec.storage, CDI takes
// access and volume mode from the StorageProfile and adds the overhead.
func (o *Options) Build() *cdiv1.DataVolume {
	volume := &cdiv1.DataVolume{
		TypeMeta:   metav1.TypeMeta{APIVersion: cdiv1.SchemeGroupVersion.String(), Kind: "DataVolume"},
		ObjectMeta: o.owner().Meta(o.Name),
		Spec: cdiv1.DataVolumeSpec{
			Source: o.source(),
			Storage: &cdiv1.StorageSpec{Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(o.Size)},
			}},
		},
	}
	volume.Annotations = map[string]string{keepAnnotation: "false"}
	if o.StorageClass != "" {
		volume.Spec.Storage.StorageClassName = &o.StorageClass
	}
	return volume
}

func (o *Options) source() *cdiv1.DataVolumeSource {
	switch {
	case o.SourceVolume != "":
		return &cdiv1.DataVolumeSource{PVC: &cdiv1.DataVolumeSourcePVC{Namespace: o.SourceNamespace, Name: o.SourceVolume}}
	case strings.HasPrefix(o.SourceURL, "docker://"):
		return &cdiv1.DataVolumeSource{Registry: &cdiv1.DataVolumeSourceRegistry{URL: &o.SourceURL}}
	}
	return &cdiv1.DataVolumeSource{HTTP: &cdiv1.DataVolumeSourceHTTP{URL: o.SourceURL}}
}

// origin names what a DataVolume is made from, to compare and for people.
func origin(source *cdiv1.DataVolumeSource) string {
	switch {
	case source == nil:
		return "nothing"
	case source.PVC != nil:
		return "volume " + source.PVC.Namespace + "/" + source.PVC.Name
	case source.HTTP != nil:
		return source.HTTP.URL
	case source.Registry != nil && source.Registry.URL != nil:
		return *source.Registry.URL
	}
	return "something else"
}
