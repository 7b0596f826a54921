package pool

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/controller"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	listers "opdev.io/guestcluster/pkg/client/listers/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
	"opdev.io/guestcluster/pkg/reconciler/index"
	"opdev.io/guestcluster/pkg/reconciler/pool/resources"
)

// bundle says whether the bundle that the pool needs can be cloned.
func (r *Reconciler) bundle(pool *v1alpha1.ClusterPool) (v1alpha1.Verdict, error) {
	name := plan.PoolBundleName(&pool.Spec)
	if name == "" {
		return v1alpha1.Verdict{OK: true, Reason: v1alpha1.ReasonNamespaceEnabled}, nil
	}
	found, err := r.Bundles.Get(name)
	if err != nil && !apierrors.IsNotFound(err) {
		return v1alpha1.Verdict{}, fmt.Errorf("get CRCBundle %s: %w", name, err)
	}
	if err != nil {
		found = nil
	}
	return plan.PoolBundle(&pool.Spec, found), nil
}

// makeBundle makes the bundle that the pool waits for. Whoever comes first
// gives it its storage class; nobody here ever deletes it.
func (r *Reconciler) makeBundle(ctx context.Context, pool *v1alpha1.ClusterPool, allowed *v1alpha1.Verdict) error {
	name := plan.PoolBundleName(&pool.Spec)
	if allowed.OK || allowed.Reason != v1alpha1.ReasonBundleNotReady || name == "" {
		return nil
	}
	if _, err := r.Bundles.Get(name); !apierrors.IsNotFound(err) {
		return err
	}
	_, err := r.Client.GuestclusterV1alpha1().CRCBundles().Create(ctx, resources.Bundle(pool), metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil // another pool was quicker: its event brings us back
	case apierrors.IsInvalid(err):
		allowed.Reason, allowed.Message = v1alpha1.ReasonBundleFailed, fmt.Sprintf(
			"template.crcVersion %q names no bundle: %v", pool.Spec.Template.CRCVersion, err)
		return nil
	case err != nil:
		return fmt.Errorf("create CRCBundle %s: %w", name, err)
	}
	controller.GetEventRecorder(ctx).Eventf(pool, corev1.EventTypeNormal, "BundleCreated", "created CRCBundle %s", name)
	return nil
}

// enqueuePoolsOfBundle wakes the pools that clone a bundle.
func enqueuePoolsOfBundle(enqueue func(types.NamespacedName), pools listers.ClusterPoolLister) func(any) {
	return func(obj any) {
		bundle, ok := index.FinalState(obj).(*v1alpha1.CRCBundle)
		if !ok {
			return
		}
		all, err := pools.List(labels.Everything())
		if err != nil {
			return
		}
		for _, p := range all {
			if plan.PoolBundleName(&p.Spec) == bundle.Name {
				enqueue(types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
			}
		}
	}
}
