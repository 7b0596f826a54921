package broker_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/test/internal/broker"
)

func TestLeaseOfAnUnknownPool(t *testing.T) {
	t.Parallel()
	w := running(t, nil)
	w.lease("job", nil)
	w.reason("job", v1alpha1.ReasonPoolNotFound, "no ClusterPool pool in namespace "+w.namespace, "check the name, or create it")
	w.pool(nil)
	w.bound("job")
}

func TestPoolAtCapacity(t *testing.T) {
	t.Parallel()
	w := running(t, nil)
	w.pool(size(1, 0))
	w.lease("first", nil)
	_, instance := w.bound("first")
	w.lease("second", nil)
	w.reason("second", v1alpha1.ReasonAtCapacity, "position 1 of 1", "has 1 of 1 instances, 1 leased", "wait for a release or raise maxSize")
	w.poolCondition(v1alpha1.ConditionCapacityAvailable, v1alpha1.ReasonAtCapacity, "1 leases wait and all 1 slots are in use")
	w.release("first")
	_, next := w.bound("second")
	if next.UID == instance.UID {
		t.Error("an instance served two leases")
	}
}

// TestLeaseDeletedInEveryPhase deletes leases while they wait, are claimed,
// bound and released.
func TestLeaseDeletedInEveryPhase(t *testing.T) {
	t.Parallel()
	t.Run("Pending", func(t *testing.T) {
		t.Parallel()
		w := running(t, always(broker.Act{Hang: true}))
		w.pool(size(1, 0))
		lease := w.lease("job", nil)
		w.reason("job", v1alpha1.ReasonAtCapacity)
		w.deleteLease("job")
		broker.Gone[*v1alpha1.ClusterLease](t, w.leases, lease)
	})
	for _, phase := range []v1alpha1.Reason{v1alpha1.ReasonClaiming, v1alpha1.ReasonInstanceBound, v1alpha1.ReasonReleased} {
		t.Run(string(phase), func(t *testing.T) {
			t.Parallel()
			w := running(t, nil)
			w.pool(size(1, 0))
			lease := w.lease("job", nil)
			instance := w.slot(0)
			switch phase {
			case v1alpha1.ReasonReleased:
				w.bound("job")
				w.release("job")
			default:
				w.named("job")
			}
			if phase == v1alpha1.ReasonInstanceBound {
				w.bound("job")
			}
			w.deleteLease("job")
			broker.Gone[*v1alpha1.ClusterLease](t, w.leases, lease)
			w.destroyed(instance)
			w.noSecret("job")
		})
	}
}

// TestLeaseDeletedWhileReleasing: the controller died after it had written why
// the lease ends, and before it gave anything back.
func TestLeaseDeletedWhileReleasing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	first := w.start(nil)
	w.pool(size(1, 0))
	w.lease("job", nil)
	lease, instance := w.bound("job")
	first.Stop()
	lease = lease.DeepCopy()
	lease.MarkReleasing(v1alpha1.ReasonReleased, "spec.release was set")
	if _, err := w.leases.UpdateStatus(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.deleteLease("job")
	w.start(nil)
	t.Cleanup(w.giveBack)
	broker.Gone[*v1alpha1.ClusterLease](t, w.leases, lease)
	w.destroyed(instance)
	w.noSecret("job")
}

// named waits until the lease names an instance.
func (w *world) named(name string) {
	w.t.Helper()
	broker.Await(w.t, w.leases, name, func(l *v1alpha1.ClusterLease, found bool) string {
		if !found || l.Status.InstanceRef == nil {
			return "it names no instance"
		}
		return ""
	})
}

func TestInstanceDeletedWhileLeased(t *testing.T) {
	t.Parallel()
	w := running(t, nil)
	w.pool(size(1, 0))
	w.lease("job", nil)
	_, instance := w.bound("job")
	if err := w.instances.Delete(t.Context(), instance.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.reason("job", v1alpha1.ReasonInstanceLost, "was deleted or failed while leased", "make another lease")
	w.phase("job", v1alpha1.LeaseFailed)
	w.destroyed(instance)
	w.noSecret("job")
}

func TestLeaseNamedLikeAnInstance(t *testing.T) {
	t.Parallel()
	w := running(t, nil)
	w.pool(size(1, 1))
	w.available(1)
	w.lease("pool-0", nil)
	_, instance := w.bound("pool-0")
	w.deleteLease("pool-0")
	w.destroyed(instance)
	w.available(1)
}

// TestLeaseMadeAgain puts the Secret of an older lease of the same name in the
// way: the new lease never shows the old kubeconfig.
func TestLeaseMadeAgain(t *testing.T) {
	t.Parallel()
	w := running(t, nil)
	isController := true
	old := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "job-access", OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "ClusterLease", Name: "job", UID: "an-older-uid", Controller: &isController,
		}}},
		Data: map[string][]byte{guestcluster.KubeconfigKey: []byte("the old cluster")},
	}
	old, err := shared.Kube.CoreV1().Secrets(w.namespace).Create(t.Context(), old, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.pool(size(2, 1))
	for range 2 {
		lease := w.lease("job", nil)
		w.bound("job") // compares the data with the new cluster's
		secret, err := shared.Kube.CoreV1().Secrets(w.namespace).Get(t.Context(), "job-access", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if secret.UID == old.UID {
			t.Error("the old Secret was written to")
		}
		old = secret
		w.deleteLease("job")
		broker.Gone[*v1alpha1.ClusterLease](t, w.leases, lease)
		w.noSecret("job")
	}
}

func TestForeignAccessSecret(t *testing.T) {
	t.Parallel()
	w := running(t, nil)
	secrets := shared.Kube.CoreV1().Secrets(w.namespace)
	foreign, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "job-access"}, Data: map[string][]byte{"a": []byte("b")}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.pool(size(1, 0))
	w.lease("job", nil)
	w.reason("job", v1alpha1.ReasonAccessSecretConflict, "Secret "+w.namespace+"/job-access exists and is not of this lease: delete or rename it")
	live, err := secrets.Get(t.Context(), "job-access", metav1.GetOptions{})
	if err != nil || live.ResourceVersion != foreign.ResourceVersion {
		t.Errorf("the foreign Secret was written: %v", err)
	}
	if err := secrets.Delete(t.Context(), "job-access", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.bound("job")
}

func TestPoolDeletedWithLeasedInstance(t *testing.T) {
	t.Parallel()
	w := running(t, nil)
	pool := w.pool(size(2, 1))
	w.lease("job", nil)
	w.bound("job")
	w.available(1)
	if err := w.pools.Delete(t.Context(), poolName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.poolCondition(v1alpha1.ConditionReady, v1alpha1.ReasonWaitingForLeases, "0 instances are being destroyed, 1 are leased", "go when their leases are released")
	w.bound("job")
	w.lease("late", nil)
	w.reason("late", v1alpha1.ReasonPoolNotFound, "is being deleted: use another pool")
	w.release("job")
	broker.Gone[*v1alpha1.ClusterPool](t, w.pools, pool)
	w.phase("job", v1alpha1.LeaseReleased)
}

func TestHolderEndsTheLease(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		end    func(w *world)
		reason v1alpha1.Reason
		text   string
	}{
		{"succeeded", func(w *world) { w.endHolder("run", corev1.ConditionTrue, "Succeeded") }, v1alpha1.ReasonHolderDone, "PipelineRun run has ended"},
		{"failed", func(w *world) { w.endHolder("run", corev1.ConditionFalse, "Failed") }, v1alpha1.ReasonHolderDone, "PipelineRun run has ended"},
		{"cancelled", func(w *world) { w.endHolder("run", corev1.ConditionFalse, "Cancelled") }, v1alpha1.ReasonHolderDone, "PipelineRun run has ended"},
		{"deleted", func(w *world) {
			if err := shared.Tekton.TektonV1().PipelineRuns(w.namespace).Delete(w.t.Context(), "run", metav1.DeleteOptions{}); err != nil {
				w.t.Fatal(err)
			}
		}, v1alpha1.ReasonHolderGone, "PipelineRun run (UID "},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := running(t, nil)
			w.pool(size(1, 0))
			ref := w.holder("run")
			w.lease("job", func(s *v1alpha1.ClusterLeaseSpec) { s.HolderRef = ref })
			_, instance := w.bound("job")
			row.end(w)
			w.reason("job", row.reason, row.text)
			w.phase("job", v1alpha1.LeaseReleased)
			w.destroyed(instance)
			w.noSecret("job")
		})
	}
	for name, uid := range map[string]string{"absent at creation": "", "another UID": "another-uid"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := running(t, nil)
			w.pool(size(1, 1))
			w.available(1)
			ref := &v1alpha1.HolderReference{APIVersion: "tekton.dev/v1", Kind: "PipelineRun", Name: "run", UID: "no-such-uid"}
			if uid != "" {
				ref = w.holder("run")
				ref.UID = "another-uid"
			}
			w.lease("job", func(s *v1alpha1.ClusterLeaseSpec) { s.HolderRef = ref })
			lease := w.phase("job", v1alpha1.LeaseFailed)
			if lease.Status.BoundReason() != v1alpha1.ReasonHolderGone || lease.Status.InstanceRef != nil {
				t.Errorf("ended by %s with instance %v", lease.Status.BoundReason(), lease.Status.InstanceRef)
			}
			w.available(1)
		})
	}
}

func TestTTLIsOver(t *testing.T) {
	t.Parallel()
	w := running(t, nil)
	w.pool(size(1, 0))
	w.lease("job", func(s *v1alpha1.ClusterLeaseSpec) { s.TTL = duration(time.Second) })
	instance := w.slot(0)
	lease := w.reason("job", v1alpha1.ReasonExpired, "the ttl of 1s is over")
	if s := lease.Status; s.ExpiresAt == nil || !s.ExpiresAt.Time.Equal(s.BoundTime.Add(time.Second)) {
		t.Errorf("bound at %v, expires at %v", s.BoundTime, s.ExpiresAt)
	}
	w.phase("job", v1alpha1.LeaseReleased)
	w.destroyed(instance)
	w.noSecret("job")
}

func TestAcquireTimeout(t *testing.T) {
	t.Parallel()
	w := running(t, always(broker.Act{Hang: true}))
	w.pool(size(1, 0))
	w.lease("job", func(s *v1alpha1.ClusterLeaseSpec) { s.AcquireTimeout = duration(3 * time.Second) })
	w.reason("job", v1alpha1.ReasonAcquireTimeout, "not bound within 3s; it waited because: ")
	w.phase("job", v1alpha1.LeaseFailed)
}

// TestTwoLeasesForOneInstance makes both before the controllers start, so that
// one pass sees them together.
func TestTwoLeasesForOneInstance(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	broker.Record(t, shared, w.namespace)
	first := w.start(nil)
	w.pool(func(s *v1alpha1.ClusterPoolSpec) { s.MaxSize, s.MinSize, s.WarmSpares = 1, 1, 0 })
	w.available(1)
	first.Stop()
	for n := range 2 {
		w.lease(fmt.Sprintf("job-%d", n), nil)
	}
	w.start(nil)
	w.start(nil)
	t.Cleanup(w.giveBack)
	w.bound("job-0")
	w.reason("job-1", v1alpha1.ReasonAtCapacity)
	w.release("job-0")
	w.bound("job-1")
}
