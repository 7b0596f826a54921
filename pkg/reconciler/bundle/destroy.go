package bundle

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/reconciler"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
	"opdev.io/guestcluster/pkg/runs"
)

var (
	runGVR    = schema.GroupVersionResource{Group: "tekton.dev", Version: "v1", Resource: "pipelineruns"}
	secretGVR = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	volumeGVR = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
)

// child is one object to delete with the bundle.
type child struct {
	resource   schema.GroupVersionResource
	kind, name string
}

// FinalizeKind implements the generated Finalizer: the finalizer goes when live
// GETs say that run, key and volume are gone. Clones that still run keep the
// volume, by Kubernetes' own protection, until they are done.
func (r *Reconciler) FinalizeKind(ctx context.Context, b *v1alpha1.CRCBundle) reconciler.Event {
	if err := r.stillThere(ctx, b); err != nil {
		return err
	}
	original := b.DeepCopy()
	left, err := r.destroy(ctx, b)
	switch {
	case apierrors.IsForbidden(err) && r.namespaceGoes(ctx):
		return nil // with all that is left; our rights there went first
	case apierrors.IsForbidden(err):
		b.MarkDeleting("cannot delete: " + runs.Redact(err.Error()))
		err = nil
	case err == nil && len(left) == 0:
		return nil
	case len(left) > 0:
		b.MarkDeleting("waiting for " + strings.Join(left, ", "))
	}
	if writeErr := r.writeStatus(ctx, original, b); err == nil && !apierrors.IsConflict(writeErr) {
		err = writeErr
	}
	if err != nil {
		return err
	}
	return controller.NewRequeueAfter(plan.DestroyPause(b.DeletionTimestamp.Time, r.clock.Now()))
}

// stillThere skips a bundle that is gone and only stands in the cache.
func (r *Reconciler) stillThere(ctx context.Context, b *v1alpha1.CRCBundle) error {
	live, err := r.client.GuestclusterV1alpha1().CRCBundles().Get(ctx, b.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || (err == nil && live.UID != b.UID) {
		return controller.NewSkipKey(b.Name)
	}
	if err != nil {
		return fmt.Errorf("read bundle: %w", err)
	}
	return nil
}

// namespaceGoes says whether the namespace of the bundles is gone or being deleted.
func (r *Reconciler) namespaceGoes(ctx context.Context) bool {
	ns, err := r.kube.CoreV1().Namespaces().Get(ctx, guestcluster.BundleNamespace, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || (err == nil && ns.DeletionTimestamp != nil)
}

// destroy deletes the runs first, since a step could make the volume anew, and
// then what they made. It names what is not gone yet.
func (r *Reconciler) destroy(ctx context.Context, b *v1alpha1.CRCBundle) ([]string, error) {
	writers := map[types.UID]bool{}
	if b.Status.Run != nil && b.Status.Run.UID != "" {
		writers[b.Status.Run.UID] = true
	}
	names, err := r.runNames(ctx, b)
	if err != nil {
		return nil, err
	}
	var left []string
	for _, name := range names {
		what, err := r.remove(ctx, child{runGVR, "PipelineRun", name}, func(o *unstructured.Unstructured) bool {
			return metav1.IsControlledBy(o, b) || writers[o.GetUID()]
		})
		if err != nil {
			return left, err
		}
		left = append(left, what...)
	}
	if len(left) > 0 {
		return left, nil
	}
	for _, c := range []child{
		{secretGVR, "Secret", v1alpha1.BootKeySecretName(b.Name)},
		{volumeGVR, "PersistentVolumeClaim", b.Name},
	} {
		what, err := r.remove(ctx, c, func(o *unstructured.Unstructured) bool {
			return plan.OwnedByBundle(b, childFacts(o), writers)
		})
		if err != nil {
			return left, err
		}
		left = append(left, what...)
	}
	return left, nil
}

// runNames are the bundle's own runs and the person's run that it followed.
func (r *Reconciler) runNames(ctx context.Context, b *v1alpha1.CRCBundle) ([]string, error) {
	list, err := r.tekton.TektonV1().PipelineRuns(guestcluster.BundleNamespace).List(ctx, metav1.ListOptions{LabelSelector: ofBundle(b).String()})
	if err != nil {
		return nil, fmt.Errorf("list PipelineRuns: %w", err)
	}
	var names []string
	followed := ""
	if b.Status.Run != nil {
		followed = b.Status.Run.Name
		names = append(names, followed)
	}
	for _, run := range list.Items {
		if run.Name != followed {
			names = append(names, run.Name)
		}
	}
	return names, nil
}

func childFacts(o *unstructured.Unstructured) plan.BundleChild {
	return plan.BundleChild{
		Owners: o.GetOwnerReferences(),
		Bundle: o.GetLabels()[guestcluster.BundleLabel],
		Run:    types.UID(o.GetAnnotations()[guestcluster.PrepareRunAnnotation]),
	}
}

// remove deletes an object if it is ours and describes it as long as it exists.
func (r *Reconciler) remove(ctx context.Context, c child, ours func(*unstructured.Unstructured) bool) ([]string, error) {
	client := r.dynamic.Resource(c.resource).Namespace(guestcluster.BundleNamespace)
	live, err := client.Get(ctx, c.name, metav1.GetOptions{})
	if err == nil && ours(live) && live.GetDeletionTimestamp() == nil {
		err = client.Delete(ctx, c.name, withPods(live.GetUID()))
		if err == nil || apierrors.IsConflict(err) {
			live, err = client.Get(ctx, c.name, metav1.GetOptions{})
		}
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("delete %s %s: %w", c.kind, c.name, err)
	case !ours(live):
		return nil, nil
	}
	text := c.kind + " " + c.name
	if finalizers := live.GetFinalizers(); len(finalizers) > 0 {
		text += " (kept by finalizer " + strings.Join(finalizers, ", ") + ")"
	}
	return []string{text}, nil
}

// withPods deletes what an object owns first: a run's pods end before the
// volume goes that they could make anew.
func withPods(uid types.UID) metav1.DeleteOptions {
	foreground := metav1.DeletePropagationForeground
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &foreground}
}
