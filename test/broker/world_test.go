package broker_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	typed "opdev.io/guestcluster/pkg/client/clientset/versioned/typed/guestcluster/v1alpha1"
	"opdev.io/guestcluster/test/internal/broker"
)

const (
	poolName = "pool"
	// pause is how often facts about several objects are asked for.
	pause = 300 * time.Millisecond
)

var enabled = map[string]string{guestcluster.EnabledLabel: "true"}

// world is one test's namespace, its guests and the stand-in for Tekton.
type world struct {
	t         testing.TB
	namespace string
	guests    *broker.Guests
	config    *rest.Config
	clock     clock.Clock

	instances typed.ClusterInstanceInterface
	leases    typed.ClusterLeaseInterface
	pools     typed.ClusterPoolInterface
}

type script func(instance, attempt string) broker.Act

// newWorld has no controllers yet. When the test ends, everything is given
// back and nothing may be left.
func newWorld(t testing.TB, acts script) *world {
	t.Helper()
	w := &world{t: t, namespace: shared.Namespace(t, enabled), guests: broker.NewGuests(t), config: shared.Config}
	api := shared.Guest.GuestclusterV1alpha1()
	w.instances, w.leases, w.pools = api.ClusterInstances(w.namespace), api.ClusterLeases(w.namespace), api.ClusterPools(w.namespace)
	broker.StartProvisioner(t, shared, w.guests, w.namespace, acts)
	return w
}

// running is a world with one set of controllers that sees nothing else.
func running(t testing.TB, acts script) *world {
	t.Helper()
	w := newWorld(t, acts)
	w.start(nil)
	t.Cleanup(w.giveBack)
	return w
}

func (w *world) start(wrap func(http.RoundTripper) http.RoundTripper) *broker.Set {
	w.t.Helper()
	return broker.StartSet(w.t, w.config, broker.SetOptions{Namespace: w.namespace, Wrap: wrap, Guests: w.guests, Clock: w.clock})
}

// giveBack deletes what the test made and proves that no child is left.
func (w *world) giveBack() {
	if w.t.Failed() {
		return
	}
	ctx := context.Background()
	for _, err := range []error{
		w.leases.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		w.pools.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
	} {
		if err != nil {
			w.t.Errorf("give back: %v", err)
		}
	}
	w.eventually("everything to be given back", func(ctx context.Context) string {
		instances, err := w.instances.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		leases, err := w.leases.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		pools, err := w.pools.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for _, i := range instances.Items {
			return fmt.Sprintf("instance %s is left: %s", i.Name, readyText(&i))
		}
		if len(leases.Items)+len(pools.Items) > 0 {
			return fmt.Sprintf("%d leases and %d pools are left", len(leases.Items), len(pools.Items))
		}
		return w.children(ctx, "")
	})
}

func readyText(i *v1alpha1.ClusterInstance) string {
	c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil {
		return "no condition"
	}
	return fmt.Sprintf("%s: %s: %s", i.Status.Phase, c.Reason, c.Message)
}

// childKinds are all kinds that instances and leases may own.
var childKinds = []schema.GroupVersionResource{
	{Version: "v1", Resource: "secrets"}, {Version: "v1", Resource: "services"}, {Version: "v1", Resource: "serviceaccounts"},
	{Version: "v1", Resource: "configmaps"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	{Group: "route.openshift.io", Version: "v1", Resource: "routes"},
	{Group: "tekton.dev", Version: "v1", Resource: "pipelineruns"}, {Group: "tekton.dev", Version: "v1", Resource: "taskruns"},
}

// children names an object that an instance or lease owns, of this UID or any.
func (w *world) children(ctx context.Context, owner types.UID) string {
	for _, kind := range childKinds {
		list, err := shared.Dynamic.Resource(kind).Namespace(w.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for _, object := range list.Items {
			for _, ref := range object.GetOwnerReferences() {
				ours := strings.HasPrefix(ref.APIVersion, guestcluster.GroupName) || ref.Kind == "PipelineRun"
				if ours && (owner == "" || ref.UID == owner) {
					return fmt.Sprintf("%s %s of %s %s is left", kind.Resource, object.GetName(), ref.Kind, ref.Name)
				}
			}
		}
	}
	return ""
}

// eventually asks again until nothing is missing. It is for facts about several objects.
func (w *world) eventually(what string, missing func(ctx context.Context) string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), broker.Patience)
	defer cancel()
	lacks := ""
	for {
		if lacks = missing(ctx); lacks == "" {
			return
		}
		select {
		case <-ctx.Done():
			w.t.Fatalf("waited %s for %s: %s", broker.Patience, what, lacks)
		case <-time.After(pause):
		}
	}
}

func (w *world) pool(change func(*v1alpha1.ClusterPoolSpec)) *v1alpha1.ClusterPool {
	w.t.Helper()
	pool := &v1alpha1.ClusterPool{ObjectMeta: metav1.ObjectMeta{Name: poolName}, Spec: v1alpha1.ClusterPoolSpec{
		Type: v1alpha1.TypeCustom, MaxSize: 3, WarmSpares: 1, MaxConcurrent: 3,
		Provisioning: &v1alpha1.Provisioning{Pipeline: broker.Pipeline},
	}}
	if change != nil {
		change(&pool.Spec)
	}
	pool, err := w.pools.Create(w.t.Context(), pool, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatalf("create pool: %v", err)
	}
	return pool
}

// size is a pool of at most n instances with as many spares.
func size(n, spares int32) func(*v1alpha1.ClusterPoolSpec) {
	return func(s *v1alpha1.ClusterPoolSpec) { s.MaxSize, s.WarmSpares = n, spares }
}

func (w *world) lease(name string, change func(*v1alpha1.ClusterLeaseSpec)) *v1alpha1.ClusterLease {
	w.t.Helper()
	lease := &v1alpha1.ClusterLease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ClusterLeaseSpec{PoolRef: v1alpha1.PoolReference{Name: poolName}}}
	if change != nil {
		change(&lease.Spec)
	}
	lease, err := w.leases.Create(w.t.Context(), lease, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatalf("create lease: %v", err)
	}
	return lease
}

func (w *world) available(n int32) *v1alpha1.ClusterPool {
	w.t.Helper()
	return broker.Await(w.t, w.pools, poolName, func(p *v1alpha1.ClusterPool, _ bool) string {
		if p.Status.AvailableInstances != n {
			return fmt.Sprintf("%d instances are available, want %d; status %+v", p.Status.AvailableInstances, n, p.Status)
		}
		return ""
	})
}

func (w *world) poolCondition(kind string, reason v1alpha1.Reason, texts ...string) *v1alpha1.ClusterPool {
	w.t.Helper()
	return broker.Await(w.t, w.pools, poolName, func(p *v1alpha1.ClusterPool, _ bool) string {
		return conditionLacks(p.Status.Conditions, kind, reason, texts)
	})
}

func (w *world) instanceCondition(name, kind string, reason v1alpha1.Reason, texts ...string) *v1alpha1.ClusterInstance {
	w.t.Helper()
	return broker.Await(w.t, w.instances, name, func(i *v1alpha1.ClusterInstance, found bool) string {
		if !found {
			return "no such instance"
		}
		return conditionLacks(i.Status.Conditions, kind, reason, texts)
	})
}

func conditionLacks(list []metav1.Condition, kind string, reason v1alpha1.Reason, texts []string) string {
	c := meta.FindStatusCondition(list, kind)
	if c == nil {
		return "no condition " + kind
	}
	if c.Reason != string(reason) {
		return fmt.Sprintf("condition %s is %s: %s", kind, c.Reason, c.Message)
	}
	for _, text := range texts {
		if !strings.Contains(c.Message, text) {
			return fmt.Sprintf("condition %s says %q, want %q", kind, c.Message, text)
		}
	}
	return ""
}

// bound waits until a lease is Bound and proves invariant 3.
func (w *world) bound(name string) (*v1alpha1.ClusterLease, *v1alpha1.ClusterInstance) {
	w.t.Helper()
	lease := w.phase(name, v1alpha1.LeaseBound)
	ref := lease.Status.InstanceRef
	instance, err := shared.Guest.GuestclusterV1alpha1().ClusterInstances(ref.Namespace).Get(w.t.Context(), ref.Name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	if instance.UID != ref.UID || !instance.ClaimedBy(lease) {
		w.t.Errorf("instance %s has claimRef %v", instance.Name, instance.Spec.ClaimRef)
	}
	secret, err := shared.Kube.CoreV1().Secrets(lease.Namespace).Get(w.t.Context(), name+"-access", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	want := map[string][]byte{
		guestcluster.KubeconfigKey: w.guests.Kubeconfig(instance.Status.APIEndpoint),
		guestcluster.OCPVersionKey: []byte(broker.Version), guestcluster.KubeadminPasswordKey: []byte(broker.Password),
	}
	if !metav1.IsControlledBy(secret, lease) || !equality.Semantic.DeepEqual(secret.Data, want) {
		w.t.Errorf("Secret has owner %v and keys %d", secret.OwnerReferences, len(secret.Data))
	}
	return lease, instance
}

func (w *world) phase(name string, phase v1alpha1.LeasePhase) *v1alpha1.ClusterLease {
	w.t.Helper()
	return broker.Await(w.t, w.leases, name, func(l *v1alpha1.ClusterLease, found bool) string {
		if !found || l.Status.Phase != phase {
			return fmt.Sprintf("exists %t, phase %q: %s: %s", found, l.Status.Phase, l.Status.BoundReason(), l.Status.BoundMessage())
		}
		return ""
	})
}

func (w *world) reason(name string, reason v1alpha1.Reason, texts ...string) *v1alpha1.ClusterLease {
	w.t.Helper()
	return broker.Await(w.t, w.leases, name, func(l *v1alpha1.ClusterLease, found bool) string {
		if !found {
			return "no such lease"
		}
		return conditionLacks(l.Status.Conditions, v1alpha1.ConditionBound, reason, texts)
	})
}

func (w *world) release(name string) {
	w.t.Helper()
	if _, err := w.leases.Patch(w.t.Context(), name, types.MergePatchType, []byte(`{"spec":{"release":true}}`), metav1.PatchOptions{}); err != nil {
		w.t.Fatalf("release: %v", err)
	}
}

func (w *world) deleteLease(name string) {
	w.t.Helper()
	if err := w.leases.Delete(w.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatalf("delete lease: %v", err)
	}
}

// destroyed waits until an instance and all it owned are gone.
func (w *world) destroyed(i *v1alpha1.ClusterInstance) {
	w.t.Helper()
	broker.Gone[*v1alpha1.ClusterInstance](w.t, w.instances, i)
	w.eventually("the children to go", func(ctx context.Context) string { return w.children(ctx, i.UID) })
}

func (w *world) noSecret(lease string) {
	w.t.Helper()
	_, err := shared.Kube.CoreV1().Secrets(w.namespace).Get(w.t.Context(), lease+"-access", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		w.t.Errorf("get access Secret of %s: %v, want NotFound", lease, err)
	}
}

func (w *world) slot(n int) *v1alpha1.ClusterInstance {
	w.t.Helper()
	return broker.Await(w.t, w.instances, fmt.Sprintf("%s-%d", poolName, n), func(_ *v1alpha1.ClusterInstance, found bool) string {
		if !found {
			return "no such instance"
		}
		return ""
	})
}

// holder makes a PipelineRun that a lease can serve.
func (w *world) holder(name string) *v1alpha1.HolderReference {
	w.t.Helper()
	run := &pipelinev1.PipelineRun{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: pipelinev1.PipelineRunSpec{PipelineRef: &pipelinev1.PipelineRef{Name: "ci"}}}
	run, err := shared.Tekton.TektonV1().PipelineRuns(w.namespace).Create(w.t.Context(), run, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatalf("create holder: %v", err)
	}
	return &v1alpha1.HolderReference{APIVersion: "tekton.dev/v1", Kind: "PipelineRun", Name: name, UID: run.UID}
}

func (w *world) endHolder(name string, status corev1.ConditionStatus, reason string) {
	w.t.Helper()
	runs := shared.Tekton.TektonV1().PipelineRuns(w.namespace)
	run, err := runs.Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	broker.SetRun(run, status, reason, reason)
	if _, err := runs.UpdateStatus(w.t.Context(), run, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func duration(d time.Duration) *v1alpha1.Duration {
	return &v1alpha1.Duration{Duration: metav1.Duration{Duration: d}}
}
