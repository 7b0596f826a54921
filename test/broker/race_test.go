package broker_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/test/internal/broker"
)

const (
	racingLeases    = 40
	racingInstances = 6
	// racingServed is how many leases must get an instance before the rest gives up.
	racingServed = 20
)

// TestTwoControllersRaceForClaims lets two complete sets of controllers, both
// of which think they lead, serve many leases from few instances.
func TestTwoControllersRaceForClaims(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	recorder := broker.Record(t, shared, w.namespace)
	w.start(nil)
	w.start(nil)
	t.Cleanup(w.giveBack)
	w.pool(size(racingInstances, racingInstances))
	w.available(racingInstances)

	var created sync.WaitGroup
	for n := range racingLeases {
		created.Go(func() { w.lease(fmt.Sprintf("job-%d", n), nil) })
	}
	created.Wait()
	bound := map[types.UID]string{}
	w.eventually("leases to be served", func(ctx context.Context) string {
		leases, err := w.leases.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for _, l := range leases.Items {
			if l.Status.Phase != v1alpha1.LeaseBound || l.Spec.Release {
				continue
			}
			if other, ok := bound[l.Status.InstanceRef.UID]; ok && other != l.Name {
				t.Fatalf("instance %s is bound to %s and %s", l.Status.InstanceRef.Name, other, l.Name)
			}
			bound[l.Status.InstanceRef.UID] = l.Name
			w.release(l.Name)
		}
		if len(bound) < racingServed {
			return fmt.Sprintf("%d leases were bound, want %d", len(bound), racingServed)
		}
		return ""
	})
	if got := recorder.Audit().MostInstances; got != racingInstances {
		t.Errorf("at most %d instances existed at a time, want %d", got, racingInstances)
	}
}

// TestLeasesPairInOrder makes the queue before the first instance is Ready.
func TestLeasesPairInOrder(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	w := running(t, func(string, string) broker.Act {
		<-hold
		return broker.Act{}
	})
	w.pool(func(s *v1alpha1.ClusterPoolSpec) {
		s.MaxSize, s.WarmSpares, s.Lease = 1, 0, &v1alpha1.LeasePolicy{MaxPriority: 10}
	})
	w.lease("low", nil)
	w.reason("low", v1alpha1.ReasonAtCapacity, "position 1 of 1", "pool "+w.namespace+"/pool has 1 of 1 instances, 0 leased")
	w.lease("high", func(s *v1alpha1.ClusterLeaseSpec) { s.Priority = 5 })
	w.reason("high", v1alpha1.ReasonAtCapacity, "position 1 of 2")
	close(hold)
	w.bound("high")
	low := w.reason("low", v1alpha1.ReasonAtCapacity)
	if low.Status.Phase != v1alpha1.LeasePending {
		t.Errorf("the lease of low priority is %s", low.Status.Phase)
	}
	w.release("high")
	w.bound("low")
}
