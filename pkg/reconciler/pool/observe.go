package pool

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
	"opdev.io/guestcluster/pkg/reconciler/catalog"
	"opdev.io/guestcluster/pkg/reconciler/index"
)

func (r *Reconciler) observe(ctx context.Context, pool *v1alpha1.ClusterPool, hash string) (plan.PoolFacts, error) {
	facts := plan.PoolFacts{Spec: pool.Spec, Status: pool.Status}
	var err error
	if facts.Instances, err = r.instances(pool, hash); err != nil {
		return facts, err
	}
	if facts.Pending, err = r.pending(pool); err != nil {
		return facts, err
	}
	facts.Allowed, err = r.allowed(ctx, pool)
	return facts, err
}

// instances are all objects whose name is a slot of the pool, whoever owns them.
func (r *Reconciler) instances(pool *v1alpha1.ClusterPool, hash string) ([]plan.PoolInstance, error) {
	all, err := index.InstancesInSlots(r.Instances, pool.Namespace+"/"+pool.Name)
	if err != nil {
		return nil, err
	}
	var found []plan.PoolInstance
	for _, i := range all {
		slot, ok := slotOf(pool.Name, i.Name)
		if !ok {
			continue
		}
		named, err := index.LeasesOfInstance(r.Leases, string(i.UID))
		if err != nil {
			return nil, err
		}
		found = append(found, instanceFacts(pool, i, slot, hash, len(named) > 0))
	}
	return found, nil
}

func instanceFacts(pool *v1alpha1.ClusterPool, i *v1alpha1.ClusterInstance, slot int32, hash string, named bool) plan.PoolInstance {
	f := plan.PoolInstance{
		Name: i.Name, UID: i.UID, ResourceVersion: i.ResourceVersion, Slot: slot,
		Foreign:  i.Spec.PoolRef == nil || i.Spec.PoolRef.UID != pool.UID,
		Deleting: i.DeletionTimestamp != nil, Ready: i.IsReady(), Failed: i.IsFailed(),
		Provisioned: i.Status.ReadyTime != nil,
		Claimed:     i.Spec.ClaimRef != nil, Named: named,
		Stale: plan.IsStale(i, hash), Failure: i.Status.Failure,
	}
	if i.Status.ReadyTime != nil {
		f.ReadyTime = i.Status.ReadyTime.Time
	}
	return f
}

func slotOf(pool, instance string) (int32, bool) {
	number, ok := strings.CutPrefix(instance, pool+"-")
	if !ok {
		return 0, false
	}
	slot, err := strconv.ParseInt(number, 10, 32)
	if err != nil || slot < 0 || strconv.FormatInt(slot, 10) != number {
		return 0, false
	}
	return int32(slot), true
}

// pending counts the leases that the pool must have an instance for and that
// have not claimed one. A lease that may not use the pool makes no demand.
func (r *Reconciler) pending(pool *v1alpha1.ClusterPool) (int, error) {
	leases, err := index.LeasesOfPool(r.Leases, pool.Namespace+"/"+pool.Name)
	if err != nil {
		return 0, err
	}
	claimed, err := r.claimed(pool)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, l := range leases {
		if !l.Wanted() || claimed[string(l.UID)] {
			continue
		}
		if l.Status.Phase == v1alpha1.LeaseBound || !r.mayDemand(pool, l) {
			continue
		}
		n++
	}
	return n, nil
}

func (r *Reconciler) claimed(pool *v1alpha1.ClusterPool) (map[string]bool, error) {
	instances, err := index.InstancesOfPool(r.Instances, pool.Namespace+"/"+pool.Name)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, i := range instances {
		if i.Spec.ClaimRef != nil {
			found[string(i.Spec.ClaimRef.LeaseUID)] = true
		}
	}
	return found, nil
}

func (r *Reconciler) mayDemand(pool *v1alpha1.ClusterPool, l *v1alpha1.ClusterLease) bool {
	switch l.Status.BoundReason() {
	case v1alpha1.ReasonAccessMissing, v1alpha1.ReasonNamespaceNotAllowed, v1alpha1.ReasonNamespaceAtLimit, "":
		return false // not yet, or an instance more would not serve it
	}
	if l.Namespace == pool.Namespace {
		return true
	}
	namespace, err := r.Namespaces.Get(l.Namespace)
	return err == nil && plan.NamespaceAllowed(pool, l.Namespace, namespace.Labels).OK
}

// allowed says whether instances may be made: namespace, RoleBinding, Pipeline,
// virtualization, bundle.
func (r *Reconciler) allowed(ctx context.Context, pool *v1alpha1.ClusterPool) (v1alpha1.Verdict, error) {
	namespace, err := r.Namespaces.Get(pool.Namespace)
	if apierrors.IsNotFound(err) {
		return v1alpha1.Verdict{Reason: v1alpha1.ReasonNamespaceDisabled, Message: "the namespace is not known yet"}, nil
	}
	if err != nil {
		return v1alpha1.Verdict{}, fmt.Errorf("get namespace: %w", err)
	}
	if namespace.DeletionTimestamp != nil {
		return v1alpha1.Verdict{Reason: v1alpha1.ReasonNamespaceTerminating, Message: "the namespace is being deleted"}, nil
	}
	if namespace.Labels[guestcluster.EnabledLabel] != "true" {
		return v1alpha1.Verdict{Reason: v1alpha1.ReasonNamespaceDisabled, Message: fmt.Sprintf(
			"namespace %s did not opt in: kubectl label namespace %s %s=true", pool.Namespace, pool.Namespace, guestcluster.EnabledLabel)}, nil
	}
	command, ok, err := r.Access.Instances(ctx, pool.Namespace)
	if err != nil {
		return v1alpha1.Verdict{}, err
	}
	if !ok {
		return v1alpha1.Verdict{Reason: v1alpha1.ReasonAccessMissing, Message: plan.AccessMissing(pool.Namespace, command)}, nil
	}
	err = r.Catalog.Check(pool.Spec.Type, pool.Spec.Provisioning, &pool.Spec.Template)
	if err == nil {
		err = r.Catalog.CheckVirtualization(pool.Spec.Type, r.Clock.Now())
	}
	if reason := catalog.Reason(err); reason != "" {
		return v1alpha1.Verdict{Reason: reason, Message: err.Error()}, nil
	}
	if err != nil {
		return v1alpha1.Verdict{}, err
	}
	return r.bundle(pool)
}
