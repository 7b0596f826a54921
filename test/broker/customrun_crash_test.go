package broker_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/tektoncd/pipeline/pkg/apis/pipeline/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/injection"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/reconciler/binding"
	"opdev.io/guestcluster/pkg/reconciler/customrun"
	"opdev.io/guestcluster/pkg/reconciler/instance"
	"opdev.io/guestcluster/pkg/reconciler/lease"
	"opdev.io/guestcluster/pkg/reconciler/pool"
	"opdev.io/guestcluster/test/internal/broker"
)

// startOnly starts some of the controllers.
func (w *world) startOnly(wrap func(http.RoundTripper) http.RoundTripper, controllers ...injection.ControllerConstructor) *broker.Set {
	w.t.Helper()
	return broker.StartSet(w.t, w.config, broker.SetOptions{Namespace: w.namespace, Wrap: wrap, Guests: w.guests, Controllers: controllers})
}

func (w *world) startOthers() *broker.Set {
	return w.startOnly(nil, pool.NewController, instance.NewController, lease.NewController, binding.NewController)
}

func (w *world) startCustomRuns(wrap func(http.RoundTripper) http.RoundTripper) *broker.Set {
	return w.startOnly(wrap, customrun.NewController)
}

// boundUnknown is an acquire whose lease is bound and who does not know it.
func (w *world) boundUnknown(owner *v1alpha1.HolderReference) (*v1alpha1.ClusterLease, *v1alpha1.ClusterInstance) {
	w.t.Helper()
	w.pool(size(1, 1))
	set := w.startCustomRuns(nil)
	w.acquire(job, owner, nil, nil)
	broker.Await(w.t, w.customRuns(), job, func(run *v1beta1.CustomRun, _ bool) string {
		if len(run.Status.ExtraFields.Raw) == 0 {
			return "it follows no lease"
		}
		return ""
	})
	set.Stop()
	w.startOthers()
	return w.bound(leaseOf(owner))
}

// TestCustomRunCancelledWhileBound: nobody was told of the cluster, so nobody
// else will give it back before the PipelineRun ends.
func TestCustomRunCancelledWhileBound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	lease, instance := w.boundUnknown(w.holder("build"))
	w.cancelRun(job)
	w.startCustomRuns(nil)
	t.Cleanup(w.giveBack)
	run := w.ran(job, corev1.ConditionFalse, v1alpha1.ReasonCustomRunCancelled)
	if len(run.Status.Results) > 0 {
		t.Errorf("results %v", run.Status.Results)
	}
	w.reason(lease.Name, v1alpha1.ReasonReleased)
	w.destroyed(instance)
}

// runScenario is something that the customrun controller does in several
// writes; all other controllers are sound.
type runScenario struct {
	acts script
	// prepare makes what exists when the crash-prone controller starts, begin what it has to do.
	prepare, begin func(w *world, owner *v1alpha1.HolderReference)
	missing        func(ctx context.Context, w *world, owner *v1alpha1.HolderReference) string
}

var runScenarios = map[string]runScenario{
	"acquire": {
		prepare: func(w *world, _ *v1alpha1.HolderReference) { w.startOthers(); w.pool(size(1, 1)); w.available(1) },
		begin:   func(w *world, owner *v1alpha1.HolderReference) { w.acquire(job, owner, nil, nil) },
		missing: func(ctx context.Context, w *world, owner *v1alpha1.HolderReference) string {
			return firstOf(w.lacksRun(ctx, corev1.ConditionTrue, v1alpha1.ReasonCustomRunSucceeded), w.lacksLease(ctx, owner, v1alpha1.LeaseBound))
		},
	},
	"acquire of an unknown pool": {
		prepare: func(w *world, _ *v1alpha1.HolderReference) { w.startOthers() },
		begin:   func(w *world, owner *v1alpha1.HolderReference) { w.acquire(job, owner, nil, nil) },
		missing: func(ctx context.Context, w *world, owner *v1alpha1.HolderReference) string {
			return firstOf(w.lacksRun(ctx, corev1.ConditionFalse, v1alpha1.ReasonPoolNotFound), w.lacksLease(ctx, owner, ""))
		},
	},
	"cancel while waiting": {
		acts: always(broker.Act{Hang: true}),
		prepare: func(w *world, owner *v1alpha1.HolderReference) {
			w.startOthers()
			w.pool(size(1, 0))
			set := w.startCustomRuns(nil)
			w.acquire(job, owner, nil, nil)
			w.ran(job, corev1.ConditionUnknown, v1alpha1.ReasonAtCapacity)
			set.Stop()
		},
		begin: func(w *world, _ *v1alpha1.HolderReference) { w.cancelRun(job) },
		missing: func(ctx context.Context, w *world, owner *v1alpha1.HolderReference) string {
			return firstOf(w.lacksRun(ctx, corev1.ConditionFalse, v1alpha1.ReasonCustomRunCancelled), w.lacksLease(ctx, owner, ""))
		},
	},
	"cancel while bound": {
		prepare: func(w *world, owner *v1alpha1.HolderReference) { w.boundUnknown(owner) },
		begin:   func(w *world, _ *v1alpha1.HolderReference) { w.cancelRun(job) },
		missing: func(ctx context.Context, w *world, owner *v1alpha1.HolderReference) string {
			return firstOf(w.lacksRun(ctx, corev1.ConditionFalse, v1alpha1.ReasonCustomRunCancelled), w.lacksLease(ctx, owner, v1alpha1.LeaseReleased))
		},
	},
	"release": {
		prepare: func(w *world, owner *v1alpha1.HolderReference) {
			w.startOthers()
			w.pool(size(1, 0))
			w.lease(leaseOf(owner), func(s *v1alpha1.ClusterLeaseSpec) { s.HolderRef = owner })
			w.bound(leaseOf(owner))
		},
		begin: func(w *world, owner *v1alpha1.HolderReference) { w.customRun(job, releaseKind, owner, nil, nil) },
		missing: func(ctx context.Context, w *world, owner *v1alpha1.HolderReference) string {
			return firstOf(w.lacksRun(ctx, corev1.ConditionTrue, v1alpha1.ReasonCustomRunSucceeded), w.lacksLease(ctx, owner, v1alpha1.LeaseReleased))
		},
	},
}

// TestCustomRunCrashes kills the customrun controller at each of its writes.
func TestCustomRunCrashes(t *testing.T) {
	t.Parallel()
	for name, s := range runScenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashEverywhere(t, s.run)
		})
	}
}

func (s runScenario) run(t *testing.T, crash *broker.Crash) int {
	w := newWorld(t, s.acts)
	broker.Record(t, shared, w.namespace)
	owner := w.holder("build")
	s.prepare(w, owner)
	s.begin(w, owner)
	crashOnce(t, crash, w.startCustomRuns, func(ctx context.Context) string { return s.missing(ctx, w, owner) })
	w.giveBack()
	return crash.Calls()
}

func firstOf(lacks ...string) string {
	for _, l := range lacks {
		if l != "" {
			return l
		}
	}
	return ""
}

func (w *world) lacksRun(ctx context.Context, status corev1.ConditionStatus, reason v1alpha1.Reason) string {
	run, err := w.customRuns().Get(ctx, job, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	if want := map[bool]int{true: 6}[status == corev1.ConditionTrue && run.Spec.CustomRef.Kind == acquireKind]; len(run.Status.Results) != want {
		return fmt.Sprintf("%d results: %+v", len(run.Status.Results), run.Status)
	}
	return runLacks(run, status, reason)
}

// lacksLease wants the holder's lease in a phase, as the only one, or none.
func (w *world) lacksLease(ctx context.Context, owner *v1alpha1.HolderReference, phase v1alpha1.LeasePhase) string {
	lease, err := w.leases.Get(ctx, leaseOf(owner), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && phase == "":
		return ""
	case err != nil:
		return err.Error()
	case lease.Status.Phase != phase:
		return fmt.Sprintf("the lease is %s, want %q", lease.Status.Phase, phase)
	}
	return ""
}
