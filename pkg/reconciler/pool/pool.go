package pool

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/reconciler"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	versioned "opdev.io/guestcluster/pkg/client/clientset/versioned"
	poolreconciler "opdev.io/guestcluster/pkg/client/injection/reconciler/guestcluster/v1alpha1/clusterpool"
	listers "opdev.io/guestcluster/pkg/client/listers/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
	"opdev.io/guestcluster/pkg/reconciler/access"
	"opdev.io/guestcluster/pkg/reconciler/catalog"
	"opdev.io/guestcluster/pkg/reconciler/claim"
	"opdev.io/guestcluster/pkg/reconciler/pool/resources"
)

// accessPause is how often a pool that waits for a RoleBinding is looked at:
// the controller does not watch RoleBindings.
const accessPause = 10 * time.Second

// Reconciler keeps the supply of pools.
type Reconciler struct {
	Client     versioned.Interface
	Instances  cache.Indexer
	Leases     cache.Indexer
	Bundles    listers.CRCBundleLister
	Namespaces corelisters.NamespaceLister
	Access     *access.Checker
	Catalog    *catalog.Catalog
	Clock      clock.PassiveClock
	// EnqueueAfter looks at a pool again when time alone changes its plan.
	EnqueueAfter func(obj any, after time.Duration)
}

var (
	_ poolreconciler.Interface = (*Reconciler)(nil)
	_ poolreconciler.Finalizer = (*Reconciler)(nil)
)

// ReconcileKind makes the supply follow spec and demand.
func (r *Reconciler) ReconcileKind(ctx context.Context, cached *v1alpha1.ClusterPool) reconciler.Event {
	pool := cached.DeepCopy()
	hash, err := plan.TemplateHash(pool.UID, pool.Spec)
	if err != nil {
		return controller.NewPermanentError(err)
	}
	facts, err := r.observe(ctx, pool, hash)
	if err != nil {
		return err
	}
	bundleErr := r.makeBundle(ctx, pool, &facts.Allowed) // what else the pool must do does not wait for it
	next := plan.Pool(facts, r.Clock.Now())
	if next.LookAgain > 0 {
		r.EnqueueAfter(pool, next.LookAgain)
	}
	if after := unwatched(next.Allowed); after > 0 {
		r.EnqueueAfter(pool, after)
	}
	err = errors.Join(bundleErr, r.delete(ctx, pool, next.Delete), r.create(ctx, pool, next.Create, hash))
	return errors.Join(err, r.writeStatus(ctx, cached, pool, next))
}

// unwatched is when to look again for what no watch tells.
func unwatched(allowed v1alpha1.Verdict) time.Duration {
	switch allowed.Reason {
	case v1alpha1.ReasonAccessMissing:
		return accessPause
	case v1alpha1.ReasonVirtualizationMissing:
		return catalog.VirtualizationPause
	}
	return 0
}

// FinalizeKind deletes unclaimed instances and waits for the leased ones.
func (r *Reconciler) FinalizeKind(ctx context.Context, cached *v1alpha1.ClusterPool) reconciler.Event {
	pool := cached.DeepCopy()
	instances, err := r.instances(pool, "")
	if err != nil {
		return err
	}
	remove, waitsFor := plan.PoolDeletion(instances)
	if err := r.delete(ctx, pool, remove); err != nil {
		return err
	}
	if waitsFor == "" {
		return r.confirmEmpty(ctx, pool)
	}
	pool.MarkDeleting(v1alpha1.ReasonWaitingForLeases, waitsFor)
	if err := r.write(ctx, cached, pool); err != nil {
		return err
	}
	return controller.NewRequeueAfter(deletionPause)
}

// confirmEmpty looks live before the finalizer goes: an instance that was just
// created may not be in the cache yet, and nobody would ever delete it.
func (r *Reconciler) confirmEmpty(ctx context.Context, pool *v1alpha1.ClusterPool) error {
	live, err := r.Client.GuestclusterV1alpha1().ClusterInstances(pool.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list instances before the pool goes: %w", err)
	}
	for _, i := range live.Items {
		if i.Spec.PoolRef != nil && i.Spec.PoolRef.UID == pool.UID {
			return controller.NewRequeueAfter(time.Second)
		}
	}
	return nil
}

// deletionPause backs up the instances' own events.
const deletionPause = 10 * time.Second

func (r *Reconciler) delete(ctx context.Context, pool *v1alpha1.ClusterPool, list []plan.Deletion) error {
	var errs []error
	for _, d := range list {
		err := claim.DeleteOpen(ctx, r.Client, pool.Namespace, d.Name, d.UID, d.ResourceVersion)
		if apierrors.IsConflict(err) {
			continue // it changed, perhaps it was claimed: its event brings us back
		}
		if err == nil {
			controller.GetEventRecorder(ctx).Eventf(pool, corev1.EventTypeNormal, "InstanceDeleted", "deleted instance %s: %s", d.Name, d.Why)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (r *Reconciler) create(ctx context.Context, pool *v1alpha1.ClusterPool, slots []int32, hash string) error {
	for _, slot := range slots {
		instance := resources.Instance(pool, slot, hash)
		_, err := r.Client.GuestclusterV1alpha1().ClusterInstances(pool.Namespace).Create(ctx, instance, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			continue // the cache lags behind: the object's event brings us back
		}
		if err != nil {
			return fmt.Errorf("create instance %s: %w", instance.Name, err)
		}
		controller.GetEventRecorder(ctx).Eventf(pool, corev1.EventTypeNormal, "InstanceCreated", "created instance %s", instance.Name)
	}
	return nil
}

func (r *Reconciler) writeStatus(ctx context.Context, cached, pool *v1alpha1.ClusterPool, next plan.PoolPlan) error {
	if f := next.Status.LastFailure; f != nil && !equality.Semantic.DeepEqual(f, cached.Status.LastFailure) {
		controller.GetEventRecorder(ctx).Eventf(pool, corev1.EventTypeWarning, "InstanceFailed", "instance %s failed: %s", f.Instance, plan.FailureText(f))
	}
	pool.Status = next.Status
	pool.Status.Conditions = cached.DeepCopy().Status.Conditions
	pool.MarkAllowed(next.Allowed)
	pool.MarkHealthy(next.Healthy)
	pool.MarkCapacity(next.Capacity)
	pool.MarkCurrent(next.Current)
	pool.MarkReady()
	return r.write(ctx, cached, pool)
}

// write writes the status once, guarded by the resourceVersion that was read.
func (r *Reconciler) write(ctx context.Context, before, after *v1alpha1.ClusterPool) error {
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return nil
	}
	_, err := r.Client.GuestclusterV1alpha1().ClusterPools(after.Namespace).UpdateStatus(ctx, after, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) {
		return nil // the pool changed: its event brings us back
	}
	if err != nil {
		return fmt.Errorf("write status of pool %s/%s: %w", after.Namespace, after.Name, err)
	}
	return nil
}
