package instance

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	kubeclient "knative.dev/pkg/client/injection/kube/client"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/injection"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// watchKinds wakes instances by what happens to their machines and Routes.
func watchKinds(ctx context.Context, impl *controller.Impl, r *Reconciler, every time.Duration) {
	r.kinds = &kinds{
		discovery: kubeclient.Get(ctx).Discovery(), client: r.dynamic, namespace: injection.GetNamespaceScope(ctx),
		appeared: func() { r.enqueueUnready(impl, corev1.NamespaceAll) },
		changed: func(gvr schema.GroupVersionResource, object *unstructured.Unstructured) {
			key, uid, ok := r.ownerOf(object)
			if !ok {
				return
			}
			if gvr == routeGVR {
				r.repaired.forget(uid)
			}
			impl.EnqueueKey(key)
		},
	}
	r.kinds.run(ctx, every)
}

// ownerOf is the instance of a watched object: its owner, or for a running
// machine, which KubeVirt owns, the one whose UID is its label's value.
func (r *Reconciler) ownerOf(object *unstructured.Unstructured) (types.NamespacedName, types.UID, bool) {
	if owner := metav1.GetControllerOf(object); owner != nil && owner.Kind == "ClusterInstance" {
		return types.NamespacedName{Namespace: object.GetNamespace(), Name: owner.Name}, owner.UID, true
	}
	uid := types.UID(object.GetLabels()[guestcluster.EndpointLabel])
	list, err := r.instances.ClusterInstances(object.GetNamespace()).List(labels.Everything())
	if err != nil || uid == "" {
		return types.NamespacedName{}, "", false
	}
	for _, i := range list {
		if i.UID == uid {
			return keyOf(i), uid, true
		}
	}
	return types.NamespacedName{}, "", false
}

// enqueueWaiting wakes the instances that wait for a bundle.
func (r *Reconciler) enqueueWaiting(impl *controller.Impl, obj any) {
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	bundle, ok := obj.(*v1alpha1.CRCBundle)
	if !ok {
		return
	}
	list, err := r.instances.List(labels.Everything())
	if err != nil {
		return
	}
	for _, i := range list {
		if i.Bundle() == bundle.Name && i.Status.Run == nil && !i.IsFailed() {
			impl.Enqueue(i)
		}
	}
}
