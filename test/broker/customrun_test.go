package broker_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tektoncd/pipeline/pkg/apis/pipeline/v1beta1"
	typedtekton "github.com/tektoncd/pipeline/pkg/client/clientset/versioned/typed/pipeline/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/lessee"
	"opdev.io/guestcluster/test/internal/broker"
)

const (
	acquireKind = "ClusterLease"
	releaseKind = "ClusterRelease"
)

func (w *world) customRuns() typedtekton.CustomRunInterface {
	return shared.Tekton.TektonV1beta1().CustomRuns(w.namespace)
}

// customRun makes a CustomRun as Tekton does for a task of the PipelineRun.
func (w *world) customRun(name, kind string, owner *v1alpha1.HolderReference, params map[string]string, change func(*v1beta1.CustomRun)) *v1beta1.CustomRun {
	w.t.Helper()
	run := &v1beta1.CustomRun{ObjectMeta: metav1.ObjectMeta{Name: name}}
	run.Spec.CustomRef = &v1beta1.TaskRef{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1beta1.TaskKind(kind)}
	if owner != nil {
		isController := true
		run.OwnerReferences = []metav1.OwnerReference{{APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: owner.UID, Controller: &isController}}
	}
	for name, value := range params {
		run.Spec.Params = append(run.Spec.Params, v1beta1.Param{Name: name, Value: *v1beta1.NewStructuredValues(value)})
	}
	if change != nil {
		change(run)
	}
	run, err := w.customRuns().Create(w.t.Context(), run, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatalf("create CustomRun: %v", err)
	}
	return run
}

// acquire makes a CustomRun that takes a cluster of the pool.
func (w *world) acquire(name string, owner *v1alpha1.HolderReference, more map[string]string, change func(*v1beta1.CustomRun)) *v1beta1.CustomRun {
	w.t.Helper()
	params := map[string]string{lessee.ParamPool: poolName}
	for k, v := range more {
		params[k] = v
	}
	return w.customRun(name, acquireKind, owner, params, change)
}

// ran waits until a CustomRun stands as wanted; an ended one must have lost our finalizer.
func (w *world) ran(name string, status corev1.ConditionStatus, reason v1alpha1.Reason, texts ...string) *v1beta1.CustomRun {
	w.t.Helper()
	return broker.Await(w.t, w.customRuns(), name, func(run *v1beta1.CustomRun, found bool) string {
		if !found {
			return "no such CustomRun"
		}
		return runLacks(run, status, reason, texts...)
	})
}

func runLacks(run *v1beta1.CustomRun, status corev1.ConditionStatus, reason v1alpha1.Reason, texts ...string) string {
	c := run.Status.GetCondition(apis.ConditionSucceeded)
	switch {
	case c == nil:
		return "it has no condition"
	case c.Status != status || c.Reason != string(reason):
		return fmt.Sprintf("it is %s: %s: %s", c.Status, c.Reason, c.Message)
	case run.Status.StartTime == nil || c.IsUnknown() != (run.Status.CompletionTime == nil):
		return fmt.Sprintf("it started %v and ended %v", run.Status.StartTime, run.Status.CompletionTime)
	case !c.IsUnknown() && slices.Contains(run.Finalizers, guestcluster.CustomRunFinalizer):
		return "it still has our finalizer"
	}
	for _, text := range texts {
		if !strings.Contains(c.Message, text) {
			return fmt.Sprintf("it says %q, want %q", c.Message, text)
		}
	}
	return ""
}

func (w *world) cancelRun(name string) {
	w.t.Helper()
	patch := fmt.Sprintf(`{"spec":{"status":%q,"statusMessage":%q}}`, v1beta1.CustomRunSpecStatusCancelled, v1beta1.CustomRunCancelledByPipelineMsg)
	if _, err := w.customRuns().Patch(w.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		w.t.Fatalf("cancel: %v", err)
	}
}

func (w *world) leaseGone(name string) {
	w.t.Helper()
	broker.Await(w.t, w.leases, name, func(l *v1alpha1.ClusterLease, found bool) string {
		if found {
			return fmt.Sprintf("the lease exists, phase %s", l.Status.Phase)
		}
		return ""
	})
}

func leaseOf(owner *v1alpha1.HolderReference) string { return "run-" + string(owner.UID) }

func resultsOf(run *v1beta1.CustomRun) map[string]string {
	values := map[string]string{}
	for _, r := range run.Status.Results {
		values[r.Name] = r.Value
	}
	return values
}

func TestCustomRunAcquiresAndReleases(t *testing.T) {
	t.Parallel()
	w := running(t, nil)
	w.pool(size(1, 1))
	w.available(1)
	owner := w.holder("build")
	w.acquire("acquire", owner, map[string]string{"ttl": "2h", "requested-by": "ci", "priority": "0"}, nil)
	run := w.ran("acquire", corev1.ConditionTrue, v1alpha1.ReasonCustomRunSucceeded, "kubeconfig in Secret")
	lease, instance := w.bound(leaseOf(owner))
	want := map[string]string{}
	for _, r := range lessee.Results(lease) {
		want[r.Name] = r.Value
	}
	if got := resultsOf(run); fmt.Sprint(got) != fmt.Sprint(want) || len(got) != 6 || got["expires-at"] == "" {
		t.Errorf("results %v, want %v", got, want)
	}
	if s := lease.Spec; *s.HolderRef != *owner || s.TTL.Duration.Duration != 2*time.Hour || s.AcquireTimeout.Duration.Duration != 50*time.Minute || s.RequestedBy != "ci" {
		t.Errorf("lease spec %+v", s)
	}
	w.customRun("release", releaseKind, owner, nil, nil)
	w.ran("release", corev1.ConditionTrue, v1alpha1.ReasonCustomRunSucceeded, "released lease "+w.namespace+"/"+lease.Name)
	w.reason(lease.Name, v1alpha1.ReasonReleased)
	w.destroyed(instance)
	w.customRun("again", releaseKind, owner, nil, nil)
	w.ran("again", corev1.ConditionTrue, v1alpha1.ReasonCustomRunSucceeded, "nothing to release: lease", "was released before")
	w.customRun("other-slot", releaseKind, owner, map[string]string{"slot": "hub"}, nil)
	w.ran("other-slot", corev1.ConditionTrue, v1alpha1.ReasonCustomRunSucceeded, "nothing to release: there is no lease")
	w.acquire("late", owner, nil, func(r *v1beta1.CustomRun) { r.Spec.Retries = 2 })
	if late := w.ran("late", corev1.ConditionFalse, v1alpha1.ReasonReleased, "already released"); late.GetRetryCount() != 0 {
		t.Errorf("it was tried again %d times", late.GetRetryCount())
	}
}

func TestCustomRunsOfOnePipelineRun(t *testing.T) {
	t.Parallel()
	w := running(t, nil)
	w.pool(size(2, 2))
	owner := w.holder("build")
	w.acquire("first", owner, nil, nil)
	first := w.ran("first", corev1.ConditionTrue, v1alpha1.ReasonCustomRunSucceeded)
	w.acquire("second", owner, nil, nil)
	second := w.ran("second", corev1.ConditionTrue, v1alpha1.ReasonCustomRunSucceeded)
	if fmt.Sprint(resultsOf(first)) != fmt.Sprint(resultsOf(second)) {
		t.Errorf("results %v and %v", resultsOf(first), resultsOf(second))
	}
	w.acquire("hub", owner, map[string]string{"slot": "hub"}, nil)
	hub := w.ran("hub", corev1.ConditionTrue, v1alpha1.ReasonCustomRunSucceeded)
	if got := resultsOf(hub); got["lease"] != leaseOf(owner)+"-hub" || got["api-endpoint"] == resultsOf(first)["api-endpoint"] {
		t.Errorf("results of slot hub: %v", got)
	}
	w.acquire("elsewhere", owner, map[string]string{"pool": "other"}, nil)
	w.ran("elsewhere", corev1.ConditionFalse, v1alpha1.ReasonLeaseConflict, "already has a lease on pool "+w.namespace+"/"+poolName, "its own slot")
	w.bound(leaseOf(owner))
}

// TestCustomRunCancelledWhileItWaits: only the one that made the lease takes it back.
func TestCustomRunCancelledWhileItWaits(t *testing.T) {
	t.Parallel()
	w := running(t, always(broker.Act{Hang: true}))
	w.pool(size(1, 0))
	owner := w.holder("build")
	w.acquire("maker", owner, nil, nil)
	w.ran("maker", corev1.ConditionUnknown, v1alpha1.ReasonAtCapacity, "position 1 of 1")
	lease := w.reason(leaseOf(owner), v1alpha1.ReasonAtCapacity)
	w.acquire("guest", owner, nil, nil)
	w.ran("guest", corev1.ConditionUnknown, v1alpha1.ReasonAtCapacity)
	w.cancelRun("guest")
	w.ran("guest", corev1.ConditionFalse, v1alpha1.ReasonCustomRunCancelled)
	if live := w.reason(lease.Name, v1alpha1.ReasonAtCapacity); live.UID != lease.UID || live.DeletionTimestamp != nil {
		t.Errorf("the guest took the lease of the maker away")
	}
	w.cancelRun("maker")
	w.ran("maker", corev1.ConditionFalse, v1alpha1.ReasonCustomRunCancelled, string(v1beta1.CustomRunCancelledByPipelineMsg), "waited for: AtCapacity")
	w.leaseGone(lease.Name)
}

func TestCustomRunDeletedWhileItWaits(t *testing.T) {
	t.Parallel()
	w := running(t, always(broker.Act{Hang: true}))
	w.pool(size(1, 0))
	run := w.acquire("acquire", nil, map[string]string{"ttl": "1h"}, nil)
	w.ran("acquire", corev1.ConditionUnknown, v1alpha1.ReasonAtCapacity)
	if err := w.customRuns().Delete(t.Context(), "acquire", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	broker.Gone[*v1beta1.CustomRun](t, w.customRuns(), run)
	w.leaseGone("run-" + string(run.UID))
}

// TestCustomRunOfItsOwn: a bound lease outlives the CustomRun until its ttl or release.
func TestCustomRunOfItsOwn(t *testing.T) {
	t.Parallel()
	w := running(t, nil)
	w.pool(size(1, 0))
	run := w.acquire("acquire", nil, map[string]string{"ttl": "1h"}, nil)
	w.ran("acquire", corev1.ConditionTrue, v1alpha1.ReasonCustomRunSucceeded)
	lease, _ := w.bound("run-" + string(run.UID))
	if lease.Spec.HolderRef != nil {
		t.Errorf("holder %v", lease.Spec.HolderRef)
	}
	if err := w.customRuns().Delete(t.Context(), "acquire", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	broker.Gone[*v1beta1.CustomRun](t, w.customRuns(), run)
	w.bound(lease.Name)
	w.customRun("release", releaseKind, nil, nil, nil)
	w.ran("release", corev1.ConditionFalse, v1alpha1.ReasonInvalidRequest, "kubectl delete clusterlease -n "+w.namespace)
}

func TestCustomRunTimesOut(t *testing.T) {
	t.Parallel()
	w := running(t, always(broker.Act{Hang: true}))
	w.pool(size(1, 0))
	owner := w.holder("build")
	w.acquire("acquire", owner, nil, func(r *v1beta1.CustomRun) {
		r.Spec.Timeout, r.Spec.Retries = &metav1.Duration{Duration: 3 * time.Second}, 1
	})
	run := w.ran("acquire", corev1.ConditionFalse, v1alpha1.ReasonCustomRunTimedOut, "within its timeout of 3s", "waited for: AtCapacity")
	if len(run.Status.RetriesStatus) != 1 || run.Status.RetriesStatus[0].GetCondition(apis.ConditionSucceeded).Reason != string(v1alpha1.ReasonCustomRunTimedOut) {
		t.Errorf("attempts before: %+v", run.Status.RetriesStatus)
	}
	w.leaseGone(leaseOf(owner))
}

// TestCustomRunIsRetried: an attempt whose lease timed out is followed by one
// with another lease, and Succeeded is not False in between.
func TestCustomRunIsRetried(t *testing.T) {
	t.Parallel()
	w := running(t, nil)
	w.pool(size(1, 0))
	w.lease("other", nil)
	w.bound("other")
	owner := w.holder("build")
	w.acquire("acquire", owner, map[string]string{"acquire-timeout": "2s"}, func(r *v1beta1.CustomRun) { r.Spec.Retries = 30 })
	broker.Await(t, w.customRuns(), "acquire", func(run *v1beta1.CustomRun, _ bool) string {
		if run.IsFailure() {
			t.Fatalf("it failed with attempts left: %+v", run.Status.Conditions)
		}
		if run.GetRetryCount() < 2 {
			return fmt.Sprintf("%d attempts before this one", run.GetRetryCount())
		}
		return ""
	})
	w.release("other")
	run := w.ran("acquire", corev1.ConditionTrue, v1alpha1.ReasonCustomRunSucceeded)
	leases := map[string]bool{}
	for _, past := range run.Status.RetriesStatus {
		c := past.GetCondition(apis.ConditionSucceeded)
		if !c.IsFalse() || c.Reason != string(v1alpha1.ReasonAcquireTimeout) || !strings.Contains(c.Message, "not bound within 2s") || past.CompletionTime == nil {
			t.Errorf("an attempt before: %+v", past)
		}
		leases[string(past.ExtraFields.Raw)] = true
	}
	if len(leases) != run.GetRetryCount() {
		t.Errorf("%d attempts had %d leases", run.GetRetryCount(), len(leases))
	}
	w.bound(leaseOf(owner))
}

func TestCustomRunFailsAtOnce(t *testing.T) {
	t.Parallel()
	w := running(t, nil)
	owner := w.holder("build")
	w.acquire("no-pool", owner, nil, func(r *v1beta1.CustomRun) { r.Spec.Retries = 3 })
	run := w.ran("no-pool", corev1.ConditionFalse, v1alpha1.ReasonPoolNotFound, "no ClusterPool pool in namespace "+w.namespace)
	if run.GetRetryCount() != 0 {
		t.Errorf("it was tried again %d times", run.GetRetryCount())
	}
	w.leaseGone(leaseOf(owner))
	for name, row := range map[string]struct {
		params map[string]string
		change func(*v1beta1.CustomRun)
		reason v1alpha1.Reason
		text   string
	}{
		"bad-ttl":      {map[string]string{"ttl": "soon"}, nil, v1alpha1.ReasonInvalidRequest, `ttl "soon"`},
		"unknown":      {map[string]string{"pools": "x"}, nil, v1alpha1.ReasonInvalidRequest, "param pools is unknown"},
		"bad-priority": {map[string]string{"priority": "1001"}, nil, v1alpha1.ReasonLeaseRefused, "spec.priority"},
		"embedded": {nil, func(r *v1beta1.CustomRun) {
			r.Spec.CustomSpec = &v1beta1.EmbeddedCustomRunSpec{TypeMeta: runtime.TypeMeta{APIVersion: r.Spec.CustomRef.APIVersion, Kind: acquireKind}}
			r.Spec.CustomRef = nil
		}, v1alpha1.ReasonInvalidRequest, "taskSpec is not read"},
	} {
		w.acquire(name, owner, row.params, row.change)
		w.ran(name, corev1.ConditionFalse, row.reason, row.text)
	}
	leases, err := w.leases.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(leases.Items) > 0 {
		t.Errorf("%d leases are left, %v", len(leases.Items), err)
	}
}

// TestForeignCustomRunsAreNotTouched: neither a finalizer nor a status, also
// when the controllers start and look at all.
func TestForeignCustomRunsAreNotTouched(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	owner := w.holder("build")
	foreign := []*v1beta1.CustomRun{
		w.customRun("other-kind", "ClusterPool", owner, nil, nil),
		w.customRun("other-group", acquireKind, owner, nil, func(r *v1beta1.CustomRun) { r.Spec.CustomRef.APIVersion = "example.dev/v1" }),
		w.customRun("embedded", acquireKind, owner, nil, func(r *v1beta1.CustomRun) {
			r.Spec.CustomRef = nil
			r.Spec.CustomSpec = &v1beta1.EmbeddedCustomRunSpec{TypeMeta: runtime.TypeMeta{APIVersion: "example.dev/v1", Kind: acquireKind}}
		}),
	}
	w.start(nil)
	t.Cleanup(w.giveBack)
	w.cancelRun("other-kind")
	changed, err := w.customRuns().Get(t.Context(), "other-kind", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	foreign[0] = changed
	w.pool(size(1, 0))
	w.acquire("ours", owner, nil, nil) // comes after them in the queue
	w.ran("ours", corev1.ConditionTrue, v1alpha1.ReasonCustomRunSucceeded)
	for _, before := range foreign {
		live, err := w.customRuns().Get(t.Context(), before.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if live.ResourceVersion != before.ResourceVersion {
			t.Errorf("%s was written: %+v", live.Name, live)
		}
	}
}
