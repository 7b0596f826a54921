package faults_test

import (
	"context"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/test/internal/broker"
)

// scenario is something that the controllers do in several writes.
type scenario struct {
	name string
	// prepare runs with sound controllers; begin when they have stopped and the
	// ones with a fault have not started.
	prepare, begin func(w *world)
	// missing says what is not yet as it must be in the end.
	missing func(ctx context.Context, w *world) string
}

const ttl = 10 * time.Minute

func ended(reason v1alpha1.Reason, instances int) func(context.Context, *world) string {
	return func(ctx context.Context, w *world) string {
		if lacks := w.lacksEnd(ctx, reason); lacks != "" {
			return lacks
		}
		return w.lacksInstances(ctx, instances)
	}
}

func leased(w *world) {
	w.pool(1, 0)
	w.lease(job, nil)
	w.bound(job)
}

// claiming leaves a lease that names an instance which it has not claimed.
func claiming(w *world) {
	w.pool(1, 1)
	set := w.start()
	w.available(1)
	set.Stop()
	crash := broker.NewFailure(1, broker.Unsent, false)
	crash.Only = func(r *http.Request) bool {
		return r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/clusterinstances/")
	}
	set = w.start(crash.Wrap)
	w.lease(job, nil)
	<-crash.Dead()
	set.Stop()
}

var scenarios = []scenario{
	{name: "provision", prepare: func(w *world) {
		// Long enough for a second run to begin beside the first.
		w.script(func(string, string) broker.Act { return broker.Act{Delay: 300 * time.Millisecond} })
	},
		begin:   func(w *world) { w.pool(1, 1) },
		missing: func(ctx context.Context, w *world) string { return w.lacksInstances(ctx, 1) }},
	{name: "bind", prepare: func(w *world) { w.pool(1, 1); w.available(1) },
		begin:   func(w *world) { w.lease(job, nil) },
		missing: func(ctx context.Context, w *world) string { return w.lacksPhase(ctx, job, v1alpha1.LeaseBound) }},
	{name: "release while pending", prepare: func(w *world) {
		w.pool(1, 0)
		w.script(func(string, string) broker.Act { return broker.Act{Hang: true} })
		w.lease(job, nil)
		w.eventually("an instance", func(ctx context.Context) string { return w.lacksInstances(ctx, 1) })
		// The pool keeps what it began; the next run succeeds.
		w.script(nil)
		w.must(shared.Tekton.TektonV1().PipelineRuns(w.namespace).DeleteCollection(w.t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	},
		begin:   func(w *world) { w.release(job) },
		missing: ended(v1alpha1.ReasonReleased, 1)},
	{name: "release while claiming", prepare: func(w *world) { w.t.Helper() },
		begin:   func(w *world) { claiming(w); w.release(job) },
		missing: ended(v1alpha1.ReasonReleased, 1)},
	{name: "release while bound", prepare: leased,
		begin:   func(w *world) { w.release(job) },
		missing: ended(v1alpha1.ReasonReleased, 0)},
	{name: "delete lease", prepare: leased,
		begin:   func(w *world) { w.deleteLease(job) },
		missing: ended("", 0)},
	{name: "delete lease while claiming", prepare: func(w *world) { w.t.Helper() },
		begin:   func(w *world) { claiming(w); w.deleteLease(job) },
		missing: ended("", 1)},
	{name: "ttl", prepare: func(w *world) {
		w.pool(1, 0)
		w.lease(job, func(s *v1alpha1.ClusterLeaseSpec) {
			s.TTL = &v1alpha1.Duration{Duration: metav1.Duration{Duration: ttl}}
		})
		w.bound(job)
	},
		begin:   func(w *world) { w.skip(ttl + time.Second) },
		missing: ended(v1alpha1.ReasonExpired, 0)},
	{name: "scale down", prepare: func(w *world) {
		w.pool(3, 3)
		w.available(3)
		w.patchPool(`{"spec":{"warmSpares":1}}`)
		w.eventually("the surplus to be seen", func(ctx context.Context) string {
			if p, err := w.pools.Get(ctx, poolName, metav1.GetOptions{}); err != nil || p.Status.SurplusSince == nil {
				return "no surplus"
			}
			return ""
		})
	},
		begin:   func(w *world) { w.skip(3 * time.Minute) },
		missing: func(ctx context.Context, w *world) string { return w.lacksInstances(ctx, 1) }},
	{name: "failure and retry", prepare: func(w *world) {
		// Lost, then failed for good: a second attempt, then a second instance.
		failed := false
		w.script(func(_, attempt string) broker.Act {
			switch {
			case failed:
				return broker.Act{}
			case attempt == "0":
				return broker.Act{Delete: true}
			}
			failed = true
			return broker.Act{Fail: true, ExitCode: 11, Message: "no room"}
		})
	},
		begin:   func(w *world) { w.pool(1, 1) },
		missing: func(ctx context.Context, w *world) string { return w.lacksInstances(ctx, 1) }},
	{name: "holder death", prepare: func(w *world) {
		w.pool(1, 0)
		ref := w.holder("ci")
		w.lease(job, func(s *v1alpha1.ClusterLeaseSpec) { s.HolderRef = ref })
		w.bound(job)
	},
		begin:   func(w *world) { w.removeHolder("ci") },
		missing: ended(v1alpha1.ReasonHolderGone, 0)},
	{name: "delete pool", prepare: func(w *world) { w.pool(2, 1); w.lease(job, nil); w.bound(job); w.available(1) },
		begin: func(w *world) { w.must(w.pools.Delete(w.t.Context(), poolName, metav1.DeleteOptions{})) },
		missing: func(ctx context.Context, w *world) string {
			if lacks := w.lacksInstances(ctx, 1); lacks != "" {
				return lacks
			}
			return w.lacksPhase(ctx, job, v1alpha1.LeaseBound)
		}},
}
