package sweep

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
)

// kind is a kind of which nothing may stay behind.
type kind struct {
	name     string
	resource schema.GroupVersionResource
}

func of(name, group, version, resource string) kind {
	return kind{name: name, resource: schema.GroupVersionResource{Group: group, Version: version, Resource: resource}}
}

// roleBinding is the only kind that an instance has in guestcluster-bundles.
var roleBinding = of("RoleBinding", "rbac.authorization.k8s.io", "v1", "rolebindings")

// kinds are swept where instances are made, rights of steps first.
var kinds = []kind{
	roleBinding,
	of("Role", "rbac.authorization.k8s.io", "v1", "roles"),
	of("PipelineRun", "tekton.dev", "v1", "pipelineruns"),
	of("VirtualMachine", "kubevirt.io", "v1", "virtualmachines"),
	of("DataVolume", "cdi.kubevirt.io", "v1beta1", "datavolumes"),
	of("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims"),
	of("HostedCluster", "hypershift.openshift.io", "v1beta1", "hostedclusters"),
	of("NodePool", "hypershift.openshift.io", "v1beta1", "nodepools"),
	of("Route", "route.openshift.io", "v1", "routes"),
	of("Service", "", "v1", "services"),
	of("ServiceAccount", "", "v1", "serviceaccounts"),
	of("ConfigMap", "", "v1", "configmaps"),
}

// kindsIn are the kinds to sweep in a namespace.
func kindsIn(namespace string) []kind {
	if namespace == guestcluster.BundleNamespace {
		return []kind{roleBinding}
	}
	return kinds
}
