package resources

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// ServiceAccount is what the steps of the instance's runs run as.
func ServiceAccount(i *v1alpha1.ClusterInstance) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: i.ChildMeta(i.DerivedName())}
}

// Role lets the steps fill what the controller made empty for them: the
// kubeconfig Secret, and for type crc the ConfigMap of step gather.
func Role(i *v1alpha1.ClusterInstance) *rbacv1.Role {
	rules := []rbacv1.PolicyRule{mayFill("secrets", i.KubeconfigSecretName())}
	if i.Spec.Type == v1alpha1.TypeCRC {
		rules = append(rules, mayFill("configmaps", i.GatherName()))
	}
	return &rbacv1.Role{ObjectMeta: i.ChildMeta(i.DerivedName()), Rules: rules}
}

func mayFill(resource, name string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{resource}, ResourceNames: []string{name},
		Verbs: []string{"get", "update", "patch"},
	}
}

// RoleBinding binds Role to the ServiceAccount.
func RoleBinding(i *v1alpha1.ClusterInstance) *rbacv1.RoleBinding {
	return binding(i, i.DerivedName(), "Role", i.DerivedName())
}

// StepsBindingName is the name of the RoleBinding to the Pipeline's ClusterRole.
func StepsBindingName(i *v1alpha1.ClusterInstance) string {
	return i.DerivedName() + "-steps"
}

// StepsBinding binds the ClusterRole that the Pipeline asks for.
func StepsBinding(i *v1alpha1.ClusterInstance, clusterRole string) *rbacv1.RoleBinding {
	return binding(i, StepsBindingName(i), "ClusterRole", clusterRole)
}

func binding(i *v1alpha1.ClusterInstance, name, kind, role string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: i.ChildMeta(name),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: i.DerivedName(), Namespace: i.Namespace}},
	}
}
