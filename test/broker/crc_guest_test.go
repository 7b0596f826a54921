package broker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/test/internal/broker"
)

func (w crcWorld) halt(name string) {
	w.t.Helper()
	_, err := shared.Dynamic.Resource(broker.MachineGVR).Namespace(w.namespace).Patch(w.t.Context(), name, types.MergePatchType,
		[]byte(`{"spec":{"runStrategy":"Halted"}}`), metav1.PatchOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

// alwaysRuns waits until the machine's run strategy is Always.
func (w crcWorld) alwaysRuns(name string) {
	w.t.Helper()
	w.eventually("the machine to be started", func(ctx context.Context) string {
		machine, err := shared.Dynamic.Resource(broker.MachineGVR).Namespace(w.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if strategy, _, _ := unstructured.NestedString(machine.Object, "spec", "runStrategy"); strategy != "Always" {
			return "its run strategy is " + strategy
		}
		return ""
	})
}

// restarted waits until the instance has another machine.
func (w crcWorld) restarted(before *v1alpha1.ClusterInstance) *v1alpha1.ClusterInstance {
	w.t.Helper()
	return broker.Await(w.t, w.instances, before.Name, func(i *v1alpha1.ClusterInstance, found bool) string {
		if !found || i.UID != before.UID || i.IsFailed() {
			return "the instance is lost"
		}
		if i.Status.CRC.VMIUID == before.Status.CRC.VMIUID {
			return "the machine is the same"
		}
		return ""
	})
}

// event waits for an Event about an object of a name.
func (w crcWorld) event(name string, reason v1alpha1.Reason) {
	w.t.Helper()
	w.eventually("Event "+string(reason), func(ctx context.Context) string {
		list, err := shared.Kube.CoreV1().Events(w.namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
		if err != nil {
			return err.Error()
		}
		for _, e := range list.Items {
			if e.Reason == string(reason) && e.Type == corev1.EventTypeWarning {
				return ""
			}
		}
		return fmt.Sprintf("%d other Events", len(list.Items))
	})
}

// TestStoppedMachineIsStartedAgain halts a leased one: address, kubeconfig and
// lease stay, only the machine is another.
func TestStoppedMachineIsStartedAgain(t *testing.T) {
	t.Parallel()
	w := runningCRC(t, nil)
	w.pool(crcPool(0))
	w.lease("job", nil)
	w.phase("job", v1alpha1.LeaseBound)
	before := w.ready("pool-0")
	w.halt(before.DerivedName())
	w.alwaysRuns(before.DerivedName())
	w.restarted(before)
	after := w.ready("pool-0")
	if after.Status.APIEndpoint != before.Status.APIEndpoint {
		t.Errorf("the address became %s", after.Status.APIEndpoint)
	}
	w.event("pool-0", v1alpha1.ReasonGuestStopped)
	w.phase("job", v1alpha1.LeaseBound)
}

// TestRestartedMachineIsNotHandedOut replaces the machine of a spare whose API
// does not answer yet: a good answer of the last machine does not count.
func TestRestartedMachineIsNotHandedOut(t *testing.T) {
	t.Parallel()
	w := runningCRC(t, nil)
	w.pool(crcPool(1))
	w.available(1)
	before := w.slot(0)
	w.guests.Silence("api-", true)
	w.remove(broker.RunningGVR, before.DerivedName())
	w.restarted(before)
	w.instanceCondition("pool-0", v1alpha1.ConditionReady, v1alpha1.ReasonGuestRestarted, "runs anew from the same disk")
	w.available(0)
	w.event("pool-0", v1alpha1.ReasonGuestRestarted)
	w.guests.Silence("api-", false)
	w.ready("pool-0")
	w.available(1)
}

// TestLostMachines loses machine or disk of a leased instance and of a spare.
func TestLostMachines(t *testing.T) {
	t.Parallel()
	for name, gvr := range map[string]schema.GroupVersionResource{
		"machine": broker.MachineGVR, "DataVolume": broker.DataVolumeGVR,
	} {
		t.Run("leased, "+name, func(t *testing.T) {
			t.Parallel()
			w := runningCRC(t, nil)
			w.pool(crcPool(0))
			w.lease("job", nil)
			w.phase("job", v1alpha1.LeaseBound)
			i := w.slot(0)
			w.remove(gvr, i.DerivedName())
			w.reason("job", v1alpha1.ReasonInstanceLost, "make another lease")
			w.phase("job", v1alpha1.LeaseFailed)
			w.destroyed(i)
			w.noSecret("job")
			w.eventually("the rest to go", func(ctx context.Context) string { return w.guestsLeft(ctx, i.DerivedName()) })
		})
		t.Run("spare, "+name, func(t *testing.T) {
			t.Parallel()
			w := runningCRC(t, nil)
			w.pool(func(s *v1alpha1.ClusterPoolSpec) { crcPool(1)(s); s.Provisioning.RetryLimit = 3 })
			w.available(1)
			i := w.slot(0)
			w.remove(gvr, i.DerivedName())
			w.destroyed(i)
			w.available(1)
			w.event("pool-0", v1alpha1.ReasonGuestLost)
		})
	}
}

// TestDeletedRouteComesBackAtOnce: its watch tells, no timer.
func TestDeletedRouteComesBackAtOnce(t *testing.T) {
	t.Parallel()
	w := runningCRC(t, nil)
	w.pool(crcPool(1))
	w.available(1)
	i := w.slot(0)
	route := schema.GroupVersionResource{Group: "route.openshift.io", Version: "v1", Resource: "routes"}
	before := w.get(route, i.DerivedName())
	w.remove(route, i.DerivedName())
	began := time.Now()
	w.eventually("the Route to be made again", func(ctx context.Context) string {
		live, err := shared.Dynamic.Resource(route).Namespace(w.namespace).Get(ctx, i.DerivedName(), metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if live.GetUID() == before.GetUID() {
			return "it is the old one"
		}
		return ""
	})
	t.Logf("after %s", time.Since(began))
}
