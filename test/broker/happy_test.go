package broker_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/test/internal/broker"
)

func TestLeaseIsBoundReleasedAndReplaced(t *testing.T) {
	t.Parallel()
	w := running(t, nil)
	broker.Record(t, shared, w.namespace)
	w.pool(size(1, 1))
	w.available(1)
	w.lease("job", func(s *v1alpha1.ClusterLeaseSpec) { s.RequestedBy = "ci" })
	lease, instance := w.bound("job")
	if s := lease.Status; s.OCPVersion != broker.Version || s.Topology != "custom" || s.APIEndpoint != instance.Status.APIEndpoint || s.ExpiresAt != nil {
		t.Errorf("lease status is %+v", s)
	}
	if ref := instance.Status.LeaseRef; ref != nil && ref.UID != lease.UID {
		t.Errorf("instance shows lease %v", ref)
	}
	w.release("job")
	w.reason("job", v1alpha1.ReasonReleased, "spec.release was set")
	w.phase("job", v1alpha1.LeaseReleased)
	w.destroyed(instance)
	w.noSecret("job")
	w.available(1)
	if next := w.slot(0); next.UID == instance.UID {
		t.Error("the instance was not replaced")
	}
}

// TestLeaseFromAnotherNamespace runs alone: its controllers see all namespaces.
func TestLeaseFromAnotherNamespace(t *testing.T) {
	w := newWorld(t, nil)
	broker.StartSet(t, shared.Config, broker.SetOptions{Guests: w.guests})
	t.Cleanup(w.giveBack)
	w.pool(func(s *v1alpha1.ClusterPoolSpec) {
		s.AllowedNamespaces = &v1alpha1.NamespaceSelector{MatchLabels: map[string]v1alpha1.LabelValue{"team": "a"}}
	})
	w.available(1)

	guest := *w
	guest.namespace = shared.Namespace(t, map[string]string{"team": "a"})
	guest.leases = shared.Guest.GuestclusterV1alpha1().ClusterLeases(guest.namespace)
	t.Cleanup(func() { _ = guest.leases.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}) })
	here := func(s *v1alpha1.ClusterLeaseSpec) { s.PoolRef.Namespace = w.namespace }
	guest.lease("job", here)
	_, instance := guest.bound("job")
	guest.deleteLease("job")
	w.destroyed(instance)
	guest.noSecret("job")

	stranger := guest
	stranger.namespace = shared.Namespace(t, map[string]string{"team": "b"})
	stranger.leases = shared.Guest.GuestclusterV1alpha1().ClusterLeases(stranger.namespace)
	stranger.lease("job", here)
	stranger.reason("job", v1alpha1.ReasonNamespaceNotAllowed, "does not allow leases from namespace "+stranger.namespace, "spec.allowedNamespaces")
	w.changePool(t, func(s *v1alpha1.ClusterPoolSpec) { s.AllowedNamespaces.MatchLabels["team"] = "b" })
	stranger.bound("job")
	stranger.deleteLease("job")
}

// TestNamespaceLimit runs alone: its controllers see all namespaces.
func TestNamespaceLimit(t *testing.T) {
	w := newWorld(t, nil)
	broker.StartSet(t, shared.Config, broker.SetOptions{Guests: w.guests})
	t.Cleanup(w.giveBack)
	w.pool(func(s *v1alpha1.ClusterPoolSpec) {
		s.MaxSize, s.WarmSpares, s.Lease = 3, 0, &v1alpha1.LeasePolicy{MaxPerNamespace: 1}
		s.AllowedNamespaces = &v1alpha1.NamespaceSelector{}
	})
	guest := *w
	guest.namespace = shared.Namespace(t, nil)
	guest.leases = shared.Guest.GuestclusterV1alpha1().ClusterLeases(guest.namespace)
	t.Cleanup(func() { _ = guest.leases.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}) })

	w.lease("first", nil)
	w.bound("first")
	w.lease("second", nil)
	w.reason("second", v1alpha1.ReasonNamespaceAtLimit, "at most 1 leases of namespace "+w.namespace, "spec.lease.maxPerNamespace")
	guest.lease("theirs", func(s *v1alpha1.ClusterLeaseSpec) { s.PoolRef.Namespace = w.namespace })
	_, instance := guest.bound("theirs")
	if _, err := w.instances.Get(t.Context(), poolName+"-2", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("an instance was made for a lease above the limit: %v", err)
	}
	w.release("first")
	w.bound("second")
	guest.deleteLease("theirs")
	w.destroyed(instance)
}

// changePool changes the pool.
func (w *world) changePool(t *testing.T, change func(*v1alpha1.ClusterPoolSpec)) {
	t.Helper()
	pool, err := w.pools.Get(t.Context(), poolName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	change(&pool.Spec)
	if _, err := w.pools.Update(t.Context(), pool, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}
