package broker_test

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/reconciler/access"
	"opdev.io/guestcluster/test/internal/broker"
)

// TestBundlesNeedOnlyShippedRights runs all controllers as the ServiceAccount
// that config/ describes. It runs alone: they see all namespaces.
func TestBundlesNeedOnlyShippedRights(t *testing.T) {
	b := newBundleWorld(t, nil)
	config := shippedRights(t, "201-controller-rbac.yaml", "202-namespace-roles.yaml", "206-bundle-controller-rbac.yaml")
	w := newWorld(t, nil)
	bindRole(t, w.namespace, access.InstancesRole)
	broker.StartSet(t, config, broker.SetOptions{Guests: w.guests})
	t.Cleanup(w.giveBack)
	b.personsRun(map[string]string{}) // its volume and key must be adopted
	bundle := b.ready()
	b.wantStatus(bundle)
	w.pool(b.pool)
	w.slot(0)
	if err := w.pools.Delete(t.Context(), poolName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.delete()
	eventually(t, "the bundle to go", b.gone)
	b.create(nil) // a run of the controller's own
	b.ready()
	b.delete()
	eventually(t, "the bundle to go", b.gone)
	checkCloneRole(t, kubernetes.NewForConfigOrDie(config))
}

// checkCloneRole: the controller may bind that role there, and no other.
func checkCloneRole(t *testing.T, kube kubernetes.Interface) {
	t.Helper()
	bindings := kube.RbacV1().RoleBindings(guestcluster.BundleNamespace)
	bind := func(role string) error {
		_, err := bindings.Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "test-" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "gc-x", Namespace: "clusters"}},
		}, metav1.CreateOptions{})
		return err
	}
	if err := bind("guestcluster-clone"); err != nil {
		t.Errorf("bind the right to clone: %v", err)
	}
	if err := bindings.Delete(t.Context(), "test-guestcluster-clone", metav1.DeleteOptions{}); err != nil {
		t.Errorf("take the right to clone back: %v", err)
	}
	if err := bind("cluster-admin"); !apierrors.IsForbidden(err) {
		t.Errorf("bind cluster-admin: %v", err)
	}
	if _, err := kube.CoreV1().Secrets(guestcluster.BundleNamespace).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("list Secrets: %v", err)
	}
	if err := kube.CoreV1().PersistentVolumeClaims("default").Delete(t.Context(), v1alpha1.BundleName("4.1.1", ""), metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("delete a volume elsewhere: %v", err)
	}
}
