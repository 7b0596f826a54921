package broker_test

import (
	"context"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/lessee"
	"opdev.io/guestcluster/pkg/reconciler/access"
	"opdev.io/guestcluster/test/internal/broker"
	"opdev.io/guestcluster/test/internal/server"
)

const controllerUser = "system:serviceaccount:" + guestcluster.SystemNamespace + ":guestcluster-controller"

// shippedRights applies files of config/ and returns how to be the controller with them.
func shippedRights(t *testing.T, files ...string) *rest.Config {
	t.Helper()
	for _, file := range files {
		objects, err := server.ReadFile(filepath.Join(server.Root(), "config", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			if err := shared.Apply(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
	}
	config, err := shared.ConfigFor(controllerUser, "system:serviceaccounts", "system:serviceaccounts:"+guestcluster.SystemNamespace)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// TestControllerHasOnlyItsRights runs the controllers as the ServiceAccount
// that config/ describes. It runs alone: they see all namespaces.
func TestControllerHasOnlyItsRights(t *testing.T) {
	installBundles(t)
	config := shippedRights(t, "201-controller-rbac.yaml", "202-namespace-roles.yaml", "206-bundle-controller-rbac.yaml")
	w := newWorld(t, nil)
	broker.StartSet(t, config, broker.SetOptions{Guests: w.guests})
	t.Cleanup(w.giveBack)
	w.pool(func(s *v1alpha1.ClusterPoolSpec) { s.MaxSize, s.AllowedNamespaces = 1, &v1alpha1.NamespaceSelector{} })
	w.poolCondition(v1alpha1.ConditionProvisioningAllowed, v1alpha1.ReasonAccessMissing, access.Command(w.namespace, access.InstancesRole))
	bindRole(t, w.namespace, access.InstancesRole)
	w.available(1)

	ci := *w
	ci.namespace = shared.Namespace(t, nil)
	ci.leases = shared.Guest.GuestclusterV1alpha1().ClusterLeases(ci.namespace)
	t.Cleanup(func() {
		_ = ci.leases.DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{})
	})
	ci.lease("job", func(s *v1alpha1.ClusterLeaseSpec) { s.PoolRef.Namespace = w.namespace })
	lease := ci.reason("job", v1alpha1.ReasonAccessMissing, access.Command(ci.namespace, access.LeasesRole))
	if lease.Status.InstanceRef != nil {
		t.Errorf("a lease without rights names instance %v", lease.Status.InstanceRef)
	}
	bindRole(t, ci.namespace, access.LeasesRole)
	_, instance := ci.bound("job")
	ci.release("job")
	ci.phase("job", v1alpha1.LeaseReleased)
	ci.noSecret("job")
	w.destroyed(instance)
	ci.throughCustomRuns(w.namespace)
}

// throughCustomRuns acquires, releases and takes back a lease that waits.
func (w *world) throughCustomRuns(poolNamespace string) {
	owner := w.holder("build")
	there := map[string]string{lessee.ParamPoolNamespace: poolNamespace}
	w.acquire("acquire", owner, there, nil)
	w.ran("acquire", corev1.ConditionTrue, v1alpha1.ReasonCustomRunSucceeded)
	w.acquire("waits", owner, map[string]string{lessee.ParamPoolNamespace: poolNamespace, lessee.ParamSlot: "b"}, nil)
	w.ran("waits", corev1.ConditionUnknown, v1alpha1.ReasonAtCapacity)
	w.cancelRun("waits")
	w.ran("waits", corev1.ConditionFalse, v1alpha1.ReasonCustomRunCancelled)
	w.leaseGone(leaseOf(owner) + "-b")
	w.customRun("release", releaseKind, owner, nil, nil)
	w.ran("release", corev1.ConditionTrue, v1alpha1.ReasonCustomRunSucceeded)
	w.phase(leaseOf(owner), v1alpha1.LeaseReleased)
}

// bindRole is what the admin's command does.
func bindRole(t *testing.T, namespace, role string) {
	t.Helper()
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "guestcluster"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "guestcluster-controller", Namespace: guestcluster.SystemNamespace}},
	}
	if _, err := shared.Kube.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
