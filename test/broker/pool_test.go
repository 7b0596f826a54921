package broker_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/reconciler/claim"
	"opdev.io/guestcluster/test/internal/broker"
)

// TestChangedTemplateClosesTheBreaker has a clock that stands still: the pause
// of the breaker never ends by itself.
func TestChangedTemplateClosesTheBreaker(t *testing.T) {
	t.Parallel()
	w, _ := clocked(t, func(instance, _ string) broker.Act {
		return broker.Act{Fail: instance == "pool-0", ExitCode: 10, Message: "no such image"}
	})
	w.pool(func(s *v1alpha1.ClusterPoolSpec) {
		size(2, 1)(s)
		s.Provisioning.RetryLimit = 1
	})
	pool := w.poolCondition(v1alpha1.ConditionProvisioningHealthy, v1alpha1.ReasonBreakerOpen, "1 instances in a row failed", "no such image")
	if pool.Status.NextAttemptTime == nil || pool.Status.LastFailure == nil || pool.Status.LastFailure.Instance != "pool-0" {
		t.Errorf("next attempt at %v, last failure %+v", pool.Status.NextAttemptTime, pool.Status.LastFailure)
	}
	change := []byte(`{"spec":{"template":{"cores":2}}}`)
	if _, err := w.pools.Patch(t.Context(), poolName, types.MergePatchType, change, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	w.available(1)
	w.poolCondition(v1alpha1.ConditionProvisioningHealthy, v1alpha1.ReasonProvisioningHealthy)
}

// TestScaleDownSparesWhatWasClaimedSince deletes as the pool does, from what
// it read before a lease claimed the instance.
func TestScaleDownSparesWhatWasClaimedSince(t *testing.T) {
	t.Parallel()
	w := running(t, nil)
	w.pool(size(1, 1))
	w.available(1)
	read, err := w.instances.Get(t.Context(), "pool-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.lease("job", nil)
	w.bound("job")
	if err := claim.DeleteOpen(t.Context(), shared.Guest, w.namespace, read.Name, read.UID, read.ResourceVersion); !apierrors.IsConflict(err) {
		t.Errorf("delete: %v, want a conflict", err)
	}
	if _, live := w.bound("job"); live.UID != read.UID || live.DeletionTimestamp != nil {
		t.Errorf("the leased instance has UID %s and deletionTimestamp %v", live.UID, live.DeletionTimestamp)
	}
}
