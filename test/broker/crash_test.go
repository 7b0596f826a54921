package broker_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/test/internal/broker"
)

// scenario is something that the controllers do in several writes.
type scenario struct {
	name string
	// prepare runs with healthy controllers, begin just before the crash-prone ones start.
	prepare, begin func(w *world)
	// missing says what is not yet as it must be in the end.
	missing func(ctx context.Context, w *world) string
}

const job = "job"

var scenarios = []scenario{
	{
		name:    "provision",
		prepare: func(*world) {},
		begin:   func(w *world) { w.pool(size(1, 1)) },
		missing: func(ctx context.Context, w *world) string { return w.lacksSpare(ctx) },
	},
	{
		name:    "bind",
		prepare: func(w *world) { w.pool(size(1, 1)); w.available(1) },
		begin:   func(w *world) { w.lease(job, nil) },
		missing: func(ctx context.Context, w *world) string { return w.lacksBinding(ctx) },
	},
	{
		name:    "release",
		prepare: func(w *world) { w.pool(size(1, 0)); w.lease(job, nil); w.bound(job) },
		begin:   func(w *world) { w.release(job) },
		missing: func(ctx context.Context, w *world) string { return w.lacksEnd(ctx, v1alpha1.ReasonReleased) },
	},
	{
		name:    "delete",
		prepare: func(w *world) { w.pool(size(1, 0)); w.lease(job, nil); w.bound(job) },
		begin:   func(w *world) { w.deleteLease(job) },
		missing: func(ctx context.Context, w *world) string { return w.lacksEnd(ctx, "") },
	},
	{
		name: "holder",
		prepare: func(w *world) {
			w.pool(size(1, 0))
			ref := w.holder("run")
			w.lease(job, func(s *v1alpha1.ClusterLeaseSpec) { s.HolderRef = ref })
			w.bound(job)
		},
		begin:   func(w *world) { w.endHolder("run", corev1.ConditionTrue, "Succeeded") },
		missing: func(ctx context.Context, w *world) string { return w.lacksEnd(ctx, v1alpha1.ReasonHolderDone) },
	},
}

// TestCrashBetweenAnyTwoWrites kills the controllers at every write of every
// scenario, once before the write and once after it with the answer lost, and
// lets fresh controllers go on.
func TestCrashBetweenAnyTwoWrites(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			crashEverywhere(t, s.run)
		})
	}
}

// run plays the scenario with one crash and returns the number of writes until then.
func (s scenario) run(t *testing.T, crash *broker.Crash) int {
	w := newWorld(t, nil)
	broker.Record(t, shared, w.namespace)
	first := w.start(nil)
	s.prepare(w)
	first.Stop()
	s.begin(w)
	crashOnce(t, crash, w.start, func(ctx context.Context) string { return s.missing(ctx, w) })
	w.giveBack()
	return crash.Calls()
}

// crashEverywhere plays a scenario without a crash, and then with one at each
// of its writes: before it is sent, and with its answer lost.
func crashEverywhere(t *testing.T, play func(*testing.T, *broker.Crash) int) {
	points := play(t, broker.NewCrash(0, false))
	t.Logf("%d writes", points)
	// A crash may delay events and so add or join writes: look beyond the count.
	for at := 1; at <= points+1; at++ {
		for _, sent := range []bool{false, true} {
			t.Run(fmt.Sprintf("at %d sent %t", at, sent), func(t *testing.T) {
				t.Parallel()
				play(t, broker.NewCrash(at, sent))
			})
		}
	}
}

// crashOnce runs controllers until they crash or nothing is missing, and then
// sound ones, which must recover.
func crashOnce(t *testing.T, crash *broker.Crash, start func(func(http.RoundTripper) http.RoundTripper) *broker.Set, missing func(context.Context) string) {
	doomed := start(crash.Wrap)
	eventually(t, "the end or the crash", func(ctx context.Context) string {
		select {
		case <-crash.Dead():
			return ""
		default:
			return missing(ctx)
		}
	})
	doomed.Stop()
	start(nil)
	if call := crash.Call(); call != "" {
		t.Logf("crashed at %s", call)
		eventually(t, "recovery from a crash at "+call, missing)
	}
}

func (w *world) lacksSpare(ctx context.Context) string {
	pool, err := w.pools.Get(ctx, poolName, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	if pool.Status.AvailableInstances != 1 {
		return fmt.Sprintf("pool status is %+v", pool.Status)
	}
	runs, err := shared.Tekton.TektonV1().PipelineRuns(w.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	if len(runs.Items) != 1 {
		return fmt.Sprintf("there are %d runs, want 1", len(runs.Items))
	}
	return ""
}

func (w *world) lacksBinding(ctx context.Context) string {
	lease, err := w.leases.Get(ctx, job, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	if lease.Status.Phase != v1alpha1.LeaseBound {
		return fmt.Sprintf("phase %q: %s: %s", lease.Status.Phase, lease.Status.BoundReason(), lease.Status.BoundMessage())
	}
	instance, err := w.instances.Get(ctx, lease.Status.InstanceRef.Name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	if !instance.ClaimedBy(lease) || instance.UID != lease.Status.InstanceRef.UID {
		return "the instance is not claimed by the lease"
	}
	secret, err := shared.Kube.CoreV1().Secrets(w.namespace).Get(ctx, job+"-access", metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	if string(secret.Data[guestcluster.KubeconfigKey]) != string(w.guests.Kubeconfig(instance.Status.APIEndpoint)) {
		return "the Secret has another kubeconfig"
	}
	return ""
}

// lacksEnd wants the lease ended for a reason, or gone for none.
func (w *world) lacksEnd(ctx context.Context, reason v1alpha1.Reason) string {
	lease, err := w.leases.Get(ctx, job, metav1.GetOptions{})
	switch {
	case reason == "" && err == nil:
		return "the lease still exists"
	case reason == "" && apierrors.IsNotFound(err):
	case err != nil:
		return err.Error()
	case lease.Status.Phase != v1alpha1.LeaseReleased || lease.Status.BoundReason() != reason:
		return fmt.Sprintf("phase %q, reason %s", lease.Status.Phase, lease.Status.BoundReason())
	}
	instances, err := w.instances.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	if len(instances.Items) > 0 {
		return "the instance still exists: " + readyText(&instances.Items[0])
	}
	return w.children(ctx, "")
}
