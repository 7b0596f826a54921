package binding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/reconciler"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	versioned "opdev.io/guestcluster/pkg/client/clientset/versioned"
	listers "opdev.io/guestcluster/pkg/client/listers/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
	"opdev.io/guestcluster/pkg/reconciler/access"
	"opdev.io/guestcluster/pkg/reconciler/claim"
	"opdev.io/guestcluster/pkg/reconciler/holder"
	"opdev.io/guestcluster/pkg/reconciler/index"
)

const (
	// commits is how many claims of one pass are written at a time.
	commits = 16
	// accessPause is how often a lease that waits for a RoleBinding is looked at:
	// the controller does not watch RoleBindings.
	accessPause = 10 * time.Second
)

// Reconciler pairs the leases and instances of one pool.
type Reconciler struct {
	reconciler.LeaderAwareFuncs

	Client     versioned.Interface
	Pools      listers.ClusterPoolLister
	Leases     cache.Indexer
	Instances  cache.Indexer
	Namespaces corelisters.NamespaceLister
	Access     *access.Checker
	Holders    *holder.Checker
	Clock      clock.PassiveClock
	Events     record.EventRecorder
	// EnqueueAfter looks at a pool again when time alone changes the pass.
	EnqueueAfter func(pool types.NamespacedName, after time.Duration)
}

var (
	_ controller.Reconciler  = (*Reconciler)(nil)
	_ reconciler.LeaderAware = (*Reconciler)(nil)
)

// Reconcile makes one pass over the pool namespace/name.
func (r *Reconciler) Reconcile(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return controller.NewPermanentError(err)
	}
	id := types.NamespacedName{Namespace: namespace, Name: name}
	if !r.IsLeaderFor(id) {
		return controller.NewSkipKey(key)
	}
	pool, err := r.Pools.ClusterPools(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return r.tellAll(ctx, key, v1alpha1.ReasonPoolNotFound, fmt.Sprintf("no ClusterPool %s in namespace %s: check the name, or create it", name, namespace))
	}
	if err != nil {
		return fmt.Errorf("get pool: %w", err)
	}
	if pool.DeletionTimestamp != nil {
		return r.tellAll(ctx, key, v1alpha1.ReasonPoolNotFound, fmt.Sprintf("ClusterPool %s/%s is being deleted: use another pool", namespace, name))
	}
	return r.pass(ctx, pool)
}

func (r *Reconciler) pass(ctx context.Context, pool *v1alpha1.ClusterPool) error {
	waiting, waitErr := r.waiting(ctx, pool)
	if len(waiting) == 0 {
		return waitErr
	}
	hash, err := plan.TemplateHash(pool.UID, pool.Spec)
	if err != nil {
		return controller.NewPermanentError(err)
	}
	available, err := r.available(pool, hash)
	if err != nil {
		return err
	}
	within, over, err := r.withinLimit(pool, waiting)
	if err != nil {
		return err
	}
	pairing := plan.PairLeases(within, available, hash)
	errs := []error{waitErr, r.commit(ctx, pairing.Pairs), r.tellQueue(ctx, pool, pairing.Waiting)}
	for _, w := range over {
		errs = append(errs, r.tell(ctx, w.Lease, plan.WaitForNamespace(pool, w)))
	}
	return errors.Join(errs...)
}

// withinLimit counts from the cache: the limit shares a pool out and guards no
// invariant, so one lease too many for a moment does no harm.
func (r *Reconciler) withinLimit(pool *v1alpha1.ClusterPool, waiting []plan.WaitingLease) (within, over []plan.WaitingLease, err error) {
	if pool.Spec.Lease == nil || pool.Spec.Lease.MaxPerNamespace == 0 {
		return waiting, nil, nil
	}
	leases, err := index.LeasesOfPool(r.Leases, pool.Namespace+"/"+pool.Name)
	if err != nil {
		return nil, nil, err
	}
	held := map[string]int{}
	for _, l := range leases {
		if plan.Holds(l) {
			held[l.Namespace]++
		}
	}
	within, over = plan.WithinNamespaceLimit(pool.Spec.Lease.MaxPerNamespace, held, waiting)
	return within, over, nil
}

// waits says whether the binding may write to a lease: the lease reconciler
// owns it until its finalizer is on, and again as soon as it names an
// instance, ends or is deleted.
func waits(l *v1alpha1.ClusterLease) bool {
	return l.Wanted() && slices.Contains(l.Finalizers, guestcluster.LeaseFinalizer) && l.Status.InstanceRef == nil
}

// waiting are the leases that may be served; the others are told why not.
func (r *Reconciler) waiting(ctx context.Context, pool *v1alpha1.ClusterPool) ([]plan.WaitingLease, error) {
	leases, err := index.LeasesOfPool(r.Leases, pool.Namespace+"/"+pool.Name)
	if err != nil {
		return nil, err
	}
	var waiting []plan.WaitingLease
	var errs []error // one lease's trouble does not keep the others waiting
	for _, l := range leases {
		if !waits(l) {
			continue
		}
		verdict, err := r.mayUse(ctx, pool, l)
		switch {
		case err != nil:
			errs = append(errs, err)
		case !verdict.OK:
			errs = append(errs, r.tell(ctx, l, plan.Wait{Reason: verdict.Reason, Message: verdict.Message}))
		default:
			waiting = append(waiting, plan.WaitingLease{Lease: l, Priority: plan.EffectivePriority(l, pool)})
		}
	}
	return waiting, errors.Join(errs...)
}

func (r *Reconciler) mayUse(ctx context.Context, pool *v1alpha1.ClusterPool, l *v1alpha1.ClusterLease) (v1alpha1.Verdict, error) {
	if l.Namespace != pool.Namespace {
		namespace, err := r.Namespaces.Get(l.Namespace)
		if err != nil {
			return v1alpha1.Verdict{}, fmt.Errorf("get namespace of lease: %w", err)
		}
		if verdict := plan.NamespaceAllowed(pool, l.Namespace, namespace.Labels); !verdict.OK {
			return verdict, nil
		}
	}
	command, ok, err := r.Access.Leases(ctx, l.Namespace)
	if err != nil || ok {
		return v1alpha1.Verdict{OK: ok}, err
	}
	r.EnqueueAfter(types.NamespacedName{Namespace: pool.Namespace, Name: pool.Name}, accessPause)
	return v1alpha1.Verdict{Reason: v1alpha1.ReasonAccessMissing, Message: plan.AccessMissing(l.Namespace, command)}, nil
}

// available instances are Ready, unclaimed and named by no lease.
func (r *Reconciler) available(pool *v1alpha1.ClusterPool, hash string) ([]*v1alpha1.ClusterInstance, error) {
	instances, err := index.InstancesOfPool(r.Instances, pool.Namespace+"/"+pool.Name)
	if err != nil {
		return nil, err
	}
	var found []*v1alpha1.ClusterInstance
	for _, i := range instances {
		if !plan.Available(pool, i, hash) {
			continue
		}
		named, err := index.LeasesOfInstance(r.Leases, string(i.UID))
		if err != nil {
			return nil, err
		}
		if len(named) == 0 {
			found = append(found, i)
		}
	}
	return found, nil
}

func (r *Reconciler) commit(ctx context.Context, pairs []plan.Pair) error {
	group := errgroup.Group{}
	group.SetLimit(commits)
	for _, pair := range pairs {
		group.Go(func() error { return dropConflict(r.commitPair(ctx, pair)) })
	}
	return group.Wait()
}

// commitPair writes the announcement, then the claim. The lease reconciler
// repeats the second write if this process dies between the two.
func (r *Reconciler) commitPair(ctx context.Context, pair plan.Pair) error {
	state, err := r.Holders.Live(ctx, pair.Lease)
	if err != nil {
		return err
	}
	if state == plan.HolderDone || state == plan.HolderGone {
		return nil
	}
	lease := pair.Lease.DeepCopy()
	lease.Status.EffectivePriority = pair.Priority
	lease.MarkClaiming(pair.Instance.Reference(), metav1.NewTime(r.Clock.Now()))
	if err := claim.WriteStatus(ctx, r.Client, pair.Lease, lease); err != nil {
		return err
	}
	if err := claim.Write(ctx, r.Client, lease, pair.Instance); err != nil {
		if errors.Is(err, claim.ErrTaken) {
			return nil
		}
		return err
	}
	r.Events.Eventf(lease, corev1.EventTypeNormal, "Claimed",
		"claimed instance %s/%s", pair.Instance.Namespace, pair.Instance.Name)
	return nil
}

func (r *Reconciler) tellQueue(ctx context.Context, pool *v1alpha1.ClusterPool, queue []plan.WaitingLease) error {
	instances, err := index.InstancesOfPool(r.Instances, pool.Namespace+"/"+pool.Name)
	if err != nil {
		return err
	}
	progress := plan.Progress(instances)
	var errs []error
	for i, w := range queue {
		wait := plan.WaitFor(pool, i+1, len(queue))
		if progress != "" && wait.Reason == v1alpha1.ReasonWaitingForCapacity {
			wait.Message += "; " + progress
		}
		wait.Priority = w.Priority
		errs = append(errs, r.tell(ctx, w.Lease, wait))
	}
	return errors.Join(errs...)
}

func (r *Reconciler) tellAll(ctx context.Context, key string, reason v1alpha1.Reason, message string) error {
	leases, err := index.LeasesOfPool(r.Leases, key)
	if err != nil {
		return err
	}
	var errs []error
	for _, l := range leases {
		if waits(l) {
			errs = append(errs, r.tell(ctx, l, plan.Wait{Reason: reason, Message: message}))
		}
	}
	return errors.Join(errs...)
}

// tell writes why a lease waits, at once for a new reason, else at most every 30 s.
func (r *Reconciler) tell(ctx context.Context, cached *v1alpha1.ClusterLease, wait plan.Wait) error {
	now := r.Clock.Now()
	tell, later := plan.TellWait(cached, wait, now)
	if later > 0 {
		r.EnqueueAfter(types.NamespacedName{Namespace: cached.PoolNamespace(), Name: cached.Spec.PoolRef.Name}, later)
	}
	if !tell {
		return nil
	}
	lease := cached.DeepCopy()
	lease.Status.EffectivePriority = wait.Priority
	lease.MarkWaiting(wait.Reason, wait.Message, wait.Position, metav1.NewTime(now))
	if err := claim.WriteStatus(ctx, r.Client, cached, lease); err != nil {
		return dropConflict(err)
	}
	if cached.Status.BoundReason() != wait.Reason {
		r.Events.Event(lease, eventType(wait.Reason), string(wait.Reason), wait.Message)
	}
	return nil
}

// eventType warns of what a person must act on; waiting for capacity is normal.
func eventType(reason v1alpha1.Reason) string {
	switch reason {
	case v1alpha1.ReasonWaitingForCapacity, v1alpha1.ReasonAtCapacity, v1alpha1.ReasonPoolPaused, v1alpha1.ReasonNamespaceAtLimit:
		return corev1.EventTypeNormal
	default:
		return corev1.EventTypeWarning
	}
}

// dropConflict: a conflict means that the cache lags behind a write whose event
// brings the pool back; trying at once would only spin.
func dropConflict(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
