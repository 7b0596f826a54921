package faults_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	typed "opdev.io/guestcluster/pkg/client/clientset/versioned/typed/guestcluster/v1alpha1"
	"opdev.io/guestcluster/test/internal/broker"
)

const (
	poolName = "pool"
	job      = "job"
	pause    = 100 * time.Millisecond
)

// world is one namespace with everything that plays in it, audited from the
// start. Many of them run side by side on one API server.
type world struct {
	t         testing.TB
	namespace string
	guests    *broker.Guests
	meter     *broker.Meter
	recorder  *broker.Recorder
	clock     *skewed

	pools     typed.ClusterPoolInterface
	instances typed.ClusterInstanceInterface
	leases    typed.ClusterLeaseInterface

	mu   sync.Mutex
	acts func(instance, attempt string) broker.Act
}

// skewed is the real clock, put forward or back.
type skewed struct {
	clock.RealClock
	mu  sync.Mutex
	off time.Duration
}

// Now implements clock.PassiveClock.
func (s *skewed) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.off)
}

// Since implements clock.PassiveClock.
func (s *skewed) Since(t time.Time) time.Duration { return s.Now().Sub(t) }

func (s *skewed) jump(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.off += d
}

func newWorld(t testing.TB) *world {
	t.Helper()
	namespace := shared.Namespace(t, map[string]string{guestcluster.EnabledLabel: "true"})
	api := shared.Guest.GuestclusterV1alpha1()
	w := &world{
		t: t, namespace: namespace, guests: broker.NewGuests(t), meter: &broker.Meter{}, clock: &skewed{},
		pools: api.ClusterPools(namespace), instances: api.ClusterInstances(namespace), leases: api.ClusterLeases(namespace),
	}
	w.recorder = broker.Record(t, shared, namespace)
	broker.StartProvisioner(t, shared, w.guests, namespace, func(instance, attempt string) broker.Act {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.acts == nil {
			return broker.Act{}
		}
		return w.acts(instance, attempt)
	})
	w.bystanders()
	return w
}

// script says what happens to runs from now on.
func (w *world) script(acts func(instance, attempt string) broker.Act) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acts = acts
}

// bystanders look like the product's and are not: label and name alone never
// prove ownership.
func (w *world) bystanders() {
	w.t.Helper()
	meta := metav1.ObjectMeta{Name: "gc-pool-0-bystander", Labels: map[string]string{
		broker.BystanderLabel: "true", guestcluster.ManagedByLabel: guestcluster.ManagedBy,
		guestcluster.PoolLabel: poolName, guestcluster.InstanceLabel: poolName + "-0",
	}}
	ctx, core := w.t.Context(), shared.Kube.CoreV1()
	_, err := core.Secrets(w.namespace).Create(ctx, &corev1.Secret{ObjectMeta: meta}, metav1.CreateOptions{})
	w.must(err)
	_, err = core.ServiceAccounts(w.namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	w.must(err)
	_, err = core.Services(w.namespace).Create(ctx, &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
		ClusterIP: "None", Ports: []corev1.ServicePort{{Port: 6443}}}}, metav1.CreateOptions{})
	w.must(err)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

type wrapper = func(http.RoundTripper) http.RoundTripper

// start runs controllers that see nothing but this world; wraps are their faults.
func (w *world) start(wraps ...wrapper) *broker.Set {
	w.t.Helper()
	return broker.StartSet(w.t, shared.Config, broker.SetOptions{
		Namespace: w.namespace, Guests: w.guests, Clock: w.clock,
		Wrap: func(next http.RoundTripper) http.RoundTripper {
			for _, wrap := range wraps {
				next = wrap(next)
			}
			return w.meter.Wrap(next)
		},
	})
}

// eventually asks again until nothing is missing.
func (w *world) eventually(what string, missing func(ctx context.Context) string) {
	w.t.Helper()
	if lacks := w.tries(broker.Patience, missing); lacks != "" {
		w.t.Fatalf("waited %s for %s: %s", broker.Patience, what, lacks)
	}
}

// tries asks again for a while and says what is missing in the end.
func (w *world) tries(patience time.Duration, missing func(ctx context.Context) string) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		lacks := missing(ctx)
		if lacks == "" {
			return ""
		}
		select {
		case <-ctx.Done():
			return lacks
		case <-time.After(pause):
		}
	}
}

// end gives everything back and proves that nothing is left, that nobody
// writes any more and that no invariant was ever broken.
func (w *world) end(quiet time.Duration) {
	w.t.Helper()
	w.idle(quiet)
	ctx := context.Background()
	w.must(w.leases.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	w.must(w.pools.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	w.eventually("everything to go", w.left)
	for _, b := range w.meter.Breaches() {
		w.t.Errorf("invariant broken: %s", b)
	}
	w.recorder.Report(w.t)
}

// idle is L5: controllers that have nothing to do write nothing.
func (w *world) idle(quiet time.Duration) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%s without a write", quiet), func(context.Context) string {
		if since, writes := w.meter.Quiet(); since < quiet {
			return fmt.Sprintf("last writes: %s", strings.Join(writes, ", "))
		}
		return ""
	})
}

// left names an object of the product that still exists (L3, L4).
func (w *world) left(ctx context.Context) string {
	for _, kind := range broker.Kinds {
		if kind.Resource == "events" || kind.Resource == "crcbundles" {
			continue
		}
		list, err := shared.Dynamic.Resource(kind).Namespace(w.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for _, o := range list.Items {
			if kind.Group == guestcluster.GroupName {
				return kind.Resource + " " + o.GetName() + " is left"
			}
			for _, owner := range o.GetOwnerReferences() {
				if strings.HasPrefix(owner.APIVersion, guestcluster.GroupName) || owner.Kind == "PipelineRun" {
					return fmt.Sprintf("%s %s of %s %s is left", kind.Resource, o.GetName(), owner.Kind, owner.Name)
				}
			}
		}
	}
	return ""
}

// settled says what keeps the world from rest: supply as wanted (L2), every
// lease that can have an instance Bound (L1), nothing half gone (L3).
func (w *world) settled(ctx context.Context) string {
	pools, err := w.pools.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	leases, err := w.leases.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	instances, err := w.instances.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	bound, waiting := 0, 0
	for _, l := range leases.Items {
		switch {
		case l.DeletionTimestamp != nil || l.Status.Phase == v1alpha1.LeaseReleasing || (l.Spec.Release && !l.Ended()):
			return fmt.Sprintf("lease %s does not end: %s", l.Name, l.Status.BoundMessage())
		case l.Ended():
		case l.Status.Phase == v1alpha1.LeaseBound:
			bound++
		default:
			waiting++
		}
	}
	ready := 0
	for _, i := range instances.Items {
		if i.DeletionTimestamp != nil || !i.IsReady() {
			return fmt.Sprintf("instance %s is not at rest: %s", i.Name, i.Status.Phase)
		}
		ready++
	}
	for _, p := range pools.Items {
		if p.DeletionTimestamp != nil {
			continue
		}
		wanted := min(max(int(p.Spec.MinSize), bound+waiting+int(p.Spec.WarmSpares)), int(p.Spec.MaxSize))
		if ready < wanted && !p.Spec.Paused {
			return fmt.Sprintf("pool %s has %d instances, wants %d", p.Name, ready, wanted)
		}
		if waiting > 0 && bound < min(ready, int(p.Spec.MaxSize)) {
			return fmt.Sprintf("%d leases wait, %d are bound, %d instances are Ready", waiting, bound, ready)
		}
		if s := p.Status; int(s.LeasedInstances) != bound || int(s.ReadyInstances) != ready || int(s.PendingLeases) != waiting {
			return fmt.Sprintf("pool %s says %d leased, %d ready, %d pending; there are %d, %d, %d",
				p.Name, s.LeasedInstances, s.ReadyInstances, s.PendingLeases, bound, ready, waiting)
		}
	}
	return ""
}

func (w *world) pool(maxSize, spares int32) {
	w.t.Helper()
	_, err := w.pools.Create(w.t.Context(), &v1alpha1.ClusterPool{ObjectMeta: metav1.ObjectMeta{Name: poolName}, Spec: v1alpha1.ClusterPoolSpec{
		Type: v1alpha1.TypeCustom, MaxSize: maxSize, WarmSpares: spares, MaxConcurrent: maxSize,
		Provisioning: &v1alpha1.Provisioning{Pipeline: broker.Pipeline, RetryLimit: 10},
	}}, metav1.CreateOptions{})
	w.must(err)
}

func (w *world) patchPool(patch string) {
	w.t.Helper()
	_, err := w.pools.Patch(w.t.Context(), poolName, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	w.must(err)
}

func (w *world) lease(name string, change func(*v1alpha1.ClusterLeaseSpec)) {
	w.t.Helper()
	l := &v1alpha1.ClusterLease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ClusterLeaseSpec{PoolRef: v1alpha1.PoolReference{Name: poolName}}}
	if change != nil {
		change(&l.Spec)
	}
	_, err := w.leases.Create(w.t.Context(), l, metav1.CreateOptions{})
	w.must(err)
}

func (w *world) release(name string) {
	w.t.Helper()
	_, err := w.leases.Patch(w.t.Context(), name, types.MergePatchType, []byte(`{"spec":{"release":true}}`), metav1.PatchOptions{})
	w.must(err)
}

func (w *world) deleteLease(name string) {
	w.t.Helper()
	w.must(w.leases.Delete(w.t.Context(), name, metav1.DeleteOptions{}))
}

func (w *world) available(n int32) {
	w.t.Helper()
	w.eventually("spares", func(ctx context.Context) string {
		p, err := w.pools.Get(ctx, poolName, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if p.Status.AvailableInstances != n {
			return fmt.Sprintf("pool status %+v", p.Status)
		}
		return ""
	})
}

func (w *world) bound(name string) {
	w.t.Helper()
	w.eventually("lease "+name+" to be Bound", func(ctx context.Context) string { return w.lacksPhase(ctx, name, v1alpha1.LeaseBound) })
}

func (w *world) lacksPhase(ctx context.Context, name string, phase v1alpha1.LeasePhase) string {
	l, err := w.leases.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	if l.Status.Phase != phase {
		return fmt.Sprintf("lease %s is %q: %s: %s", name, l.Status.Phase, l.Status.BoundReason(), l.Status.BoundMessage())
	}
	return ""
}

// lacksEnd wants the lease ended for a reason, or gone for none.
func (w *world) lacksEnd(ctx context.Context, reason v1alpha1.Reason) string {
	l, err := w.leases.Get(ctx, job, metav1.GetOptions{})
	switch {
	case reason == "" && apierrors.IsNotFound(err):
		return ""
	case err != nil:
		return err.Error()
	case reason == "" || !l.Ended() || l.Status.BoundReason() != reason:
		return fmt.Sprintf("lease is %q: %s", l.Status.Phase, l.Status.BoundReason())
	}
	return ""
}

func (w *world) lacksInstances(ctx context.Context, n int) string {
	list, err := w.instances.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	if len(list.Items) != n {
		return fmt.Sprintf("there are %d instances, want %d", len(list.Items), n)
	}
	return ""
}

// skip lets time pass and wakes whatever may wait for it.
func (w *world) skip(d time.Duration) {
	w.t.Helper()
	w.clock.jump(d)
	w.wake()
}

func (w *world) wake() {
	ctx := context.Background()
	patch := []byte(fmt.Sprintf(`{"metadata":{"annotations":{"test/wake":%q}}}`, shared.Name("w")))
	pools, _ := w.pools.List(ctx, metav1.ListOptions{})
	for _, o := range pools.Items {
		_, _ = w.pools.Patch(ctx, o.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	instances, _ := w.instances.List(ctx, metav1.ListOptions{})
	for _, o := range instances.Items {
		_, _ = w.instances.Patch(ctx, o.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	leases, _ := w.leases.List(ctx, metav1.ListOptions{})
	for _, o := range leases.Items {
		_, _ = w.leases.Patch(ctx, o.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
}

// holder makes a PipelineRun that a lease can serve.
func (w *world) holder(name string) *v1alpha1.HolderReference {
	w.t.Helper()
	run := &pipelinev1.PipelineRun{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: pipelinev1.PipelineRunSpec{PipelineRef: &pipelinev1.PipelineRef{Name: "ci"}}}
	run, err := shared.Tekton.TektonV1().PipelineRuns(w.namespace).Create(w.t.Context(), run, metav1.CreateOptions{})
	w.must(err)
	return &v1alpha1.HolderReference{APIVersion: "tekton.dev/v1", Kind: "PipelineRun", Name: name, UID: run.UID}
}

func (w *world) removeHolder(name string) {
	w.t.Helper()
	w.must(shared.Tekton.TektonV1().PipelineRuns(w.namespace).Delete(w.t.Context(), name, metav1.DeleteOptions{}))
}
