package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
)

// SchemeGroupVersion is guestcluster.opdev.io/v1alpha1.
var SchemeGroupVersion = schema.GroupVersion{Group: guestcluster.GroupName, Version: "v1alpha1"}

// Kind returns the GroupKind of a kind of this group.
func Kind(kind string) schema.GroupKind {
	return SchemeGroupVersion.WithKind(kind).GroupKind()
}

// Resource returns the GroupResource of a resource of this group.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}

var (
	// SchemeBuilder collects the functions that add this group to a scheme.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme adds the kinds of this group to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&ClusterPool{}, &ClusterPoolList{},
		&ClusterInstance{}, &ClusterInstanceList{},
		&ClusterLease{}, &ClusterLeaseList{},
		&CRCBundle{}, &CRCBundleList{},
	)
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
