package runs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// What a crc template leaves out.
const (
	defaultMemory         = "14Gi"
	defaultCores          = 4
	defaultRootVolumeSize = "80Gi"
)

// crcValues are the params of crc. The volume to clone is the one that was
// recorded, never one that the template names.
func crcValues(i *v1alpha1.ClusterInstance) map[string]string {
	t := &i.Spec.Template
	values := map[string]string{
		ParamSourceNamespace: "", ParamSourceVolume: "", ParamSourceURL: "",
		ParamRootVolumeSize: quantity(t.RootVolumeSize, defaultRootVolumeSize),
		ParamStorageClass:   t.StorageClassName,
		ParamMemory:         quantity(t.Memory, defaultMemory),
		ParamCores:          fmt.Sprint(cmp.Or(t.Cores, defaultCores)),
		ParamNodeSelector:   pairs(t.VMNodeSelector),
		ParamArch:           cmp.Or(t.CRCArch, v1alpha1.DefaultArch),
	}
	switch bundle := i.ChosenBundle(); {
	case i.Bundle() == "":
		values[ParamSourceURL] = t.ReleaseImage
	case bundle != nil:
		values[ParamSourceNamespace], values[ParamSourceVolume] = guestcluster.BundleNamespace, bundle.Name
	}
	return values
}

func quantity(q *resource.Quantity, otherwise string) string {
	if q == nil {
		return otherwise
	}
	return q.String()
}

// pairs is key=value,key=value in order of keys.
func pairs(selector map[string]v1alpha1.LabelValue) string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		list = append(list, key+"="+string(selector[key]))
	}
	return strings.Join(list, ",")
}
