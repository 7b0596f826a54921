package broker_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/injection"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/reconciler/access"
	"opdev.io/guestcluster/pkg/reconciler/binding"
	"opdev.io/guestcluster/pkg/reconciler/instance"
	"opdev.io/guestcluster/pkg/reconciler/lease"
	"opdev.io/guestcluster/test/internal/broker"
)

// TestMachinesNeedOnlyTheirRights makes, restarts and destroys one as the
// ServiceAccount that config/ describes. It runs alone: controllers see all namespaces.
func TestMachinesNeedOnlyTheirRights(t *testing.T) {
	w := newCRCWorld(t, nil)
	config := shippedRights(t, "201-controller-rbac.yaml", "202-namespace-roles.yaml", "206-bundle-controller-rbac.yaml", "207-provision-crc-rbac.yaml")
	bindRole(t, w.namespace, access.InstancesRole)
	g := newBundle(t)
	g.ready()
	// The bundle controllers would look for the run of a bundle that has none.
	broker.StartSet(t, config, broker.SetOptions{Guests: w.guests, Controllers: []injection.ControllerConstructor{
		instance.NewController, lease.NewController, binding.NewController}})
	t.Cleanup(w.giveBack)
	w.instance(g.template())
	before := w.ready(alone)
	w.halt(before.DerivedName())
	w.restarted(before)
	w.ready(alone)
	if err := w.instances.Delete(t.Context(), alone, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.destroyed(before)
	w.eventually("all to go", func(ctx context.Context) string { return w.guestsLeft(ctx, "") })
	g.stands()

	w.instance(v1alpha1.ClusterTemplate{CRCVersion: g.bundle.Spec.Version, PullSecretRef: &v1alpha1.LocalReference{Name: "none"}})
	w.instanceCondition(alone, v1alpha1.ConditionReady, v1alpha1.ReasonInvalidPullSecret, "Secret "+w.namespace+"/none")
}
