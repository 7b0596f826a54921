package instance

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
	"opdev.io/guestcluster/pkg/reconciler/instance/resources"
)

var (
	routeGVR       = schema.GroupVersionResource{Group: "route.openshift.io", Version: "v1", Resource: "routes"}
	runGVR         = schema.GroupVersionResource{Group: "tekton.dev", Version: "v1", Resource: "pipelineruns"}
	roleGVR        = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}
	roleBindingGVR = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}
	claimGVR       = core("persistentvolumeclaims")
)

func core(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: resource}
}

// child is one object to destroy.
type child struct {
	resource   schema.GroupVersionResource
	kind, name string
	// namespace is the instance's unless it is set.
	namespace string
	// of is the child that makes this one; nil when the instance itself owns it.
	of *child
}

func (c child) in(i *v1alpha1.ClusterInstance) string {
	if c.namespace != "" {
		return c.namespace
	}
	return i.Namespace
}

func (c child) isMachine() bool { return c.resource == machineGVR || c.resource == runningGVR }

// isEvidence: it tells why an instance failed.
func (c child) isEvidence() bool { return c.resource == core("configmaps") }

func (c child) isDisk() bool { return c.resource == dataVolumeGVR || c.resource == claimGVR }

// children lists what an instance may have, in the order of destruction: first
// the rights of steps, so that stragglers can do no harm, then the runs.
func (r *Reconciler) children(ctx context.Context, i *v1alpha1.ClusterInstance) ([]child, error) {
	name := i.DerivedName()
	runNames, err := r.runNames(ctx, i)
	list := rights(i)
	for _, run := range runNames {
		list = append(list, child{resource: runGVR, kind: "PipelineRun", name: run})
	}
	return append(append(append(list, guestOf(i)...), gathered(i)...),
		child{resource: routeGVR, kind: "Route", name: name},
		child{resource: core("services"), kind: "Service", name: name},
		child{resource: core("secrets"), kind: "Secret", name: i.KubeconfigSecretName()},
		child{resource: core("secrets"), kind: "Secret", name: i.IdentitySecretName()},
		child{resource: core("serviceaccounts"), kind: "ServiceAccount", name: name},
	), err
}

// rights are what lets the steps' ServiceAccount do anything: first to clone.
func rights(i *v1alpha1.ClusterInstance) []child {
	list := []child{
		{resource: roleBindingGVR, kind: "RoleBinding", name: resources.StepsBindingName(i)},
		{resource: roleBindingGVR, kind: "RoleBinding", name: i.DerivedName()},
		{resource: roleGVR, kind: "Role", name: i.DerivedName()},
	}
	if i.Bundle() == "" {
		return list
	}
	clone := child{resource: roleBindingGVR, kind: "RoleBinding", namespace: guestcluster.BundleNamespace, name: i.CloneBindingName()}
	return append([]child{clone}, list...)
}

// guestOf is what steps make for type crc: the machine, then its disk. What a
// custom Pipeline makes is collected with the instance.
func guestOf(i *v1alpha1.ClusterInstance) []child {
	if i.Spec.Type != v1alpha1.TypeCRC {
		return nil
	}
	name := i.DerivedName()
	machine := child{resource: machineGVR, kind: "VirtualMachine", name: name}
	volume := child{resource: dataVolumeGVR, kind: "DataVolume", name: name}
	return []child{
		machine, {resource: runningGVR, kind: "VirtualMachineInstance", name: name, of: &machine},
		volume, {resource: claimGVR, kind: "PersistentVolumeClaim", name: name, of: &volume},
	}
}

// gathered is what step gather fills.
func gathered(i *v1alpha1.ClusterInstance) []child {
	if i.Spec.Type != v1alpha1.TypeCRC {
		return nil
	}
	return []child{{resource: core("configmaps"), kind: "ConfigMap", name: i.GatherName()}}
}

// runNames are the names of all attempts, one more than was recorded since a
// crash may have hidden it, and of what carries our label besides.
func (r *Reconciler) runNames(ctx context.Context, i *v1alpha1.ClusterInstance) ([]string, error) {
	last := int32(0)
	if i.Status.Run != nil {
		last = i.Status.Run.Attempt + 1
	}
	var names []string
	known := map[string]bool{}
	for attempt := range last + 1 {
		names = append(names, i.RunName(attempt))
		known[i.RunName(attempt)] = true
	}
	list, err := r.dynamic.Resource(runGVR).Namespace(i.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: guestcluster.InstanceUIDLabel + "=" + string(i.UID),
	})
	if r.isGone(i.Namespace, err) {
		return names, nil
	}
	if err != nil {
		return names, fmt.Errorf("list PipelineRuns: %w", err)
	}
	for _, run := range list.Items {
		if !known[run.GetName()] {
			names = append(names, run.GetName())
		}
	}
	return names, nil
}

// remove deletes one child if it is ours and describes what is left of it.
func (r *Reconciler) remove(ctx context.Context, i *v1alpha1.ClusterInstance, c child) (*plan.Remnant, error) {
	client := r.clientOf(i, c)
	live, err := client.Get(ctx, c.name, metav1.GetOptions{})
	ours := false
	if err == nil {
		ours, err = r.owns(ctx, i, c, live)
	}
	if err == nil && ours && live.GetDeletionTimestamp() == nil {
		err = client.Delete(ctx, c.name, onlyThis(live.GetUID()))
		if err == nil || apierrors.IsConflict(err) {
			live, err = client.Get(ctx, c.name, metav1.GetOptions{})
		}
	}
	switch {
	case r.isGone(c.in(i), err):
		return nil, nil
	case err != nil:
		return &plan.Remnant{Text: c.kind + " " + c.name}, fmt.Errorf("destroy %s %s: %w", c.kind, c.name, err)
	}
	if ours, err = r.owns(ctx, i, c, live); err != nil || !ours {
		return nil, err
	}
	return describe(c, live), nil
}

func (r *Reconciler) clientOf(i *v1alpha1.ClusterInstance, c child) dynamic.ResourceInterface {
	return r.dynamic.Resource(c.resource).Namespace(c.in(i))
}

// owns says whether a child is the instance's, or belongs to a child of it: to
// the one of that name, which may be gone while garbage collection lags behind.
func (r *Reconciler) owns(ctx context.Context, i *v1alpha1.ClusterInstance, c child, live *unstructured.Unstructured) (bool, error) {
	if resources.Owns(i, live) {
		return true, nil
	}
	owner := metav1.GetControllerOf(live)
	if c.of == nil || owner == nil || owner.Kind != c.of.kind || owner.Name != c.of.name ||
		!strings.HasPrefix(owner.APIVersion, c.of.resource.Group+"/") {
		return false, nil
	}
	parent, err := r.clientOf(i, *c.of).Get(ctx, c.of.name, metav1.GetOptions{})
	if r.isGone(i.Namespace, err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s %s: %w", c.of.kind, c.of.name, err)
	}
	return resources.Owns(i, parent), nil
}

func describe(c child, live *unstructured.Unstructured) *plan.Remnant {
	left, finalizers := plan.Remnant{Text: c.kind + " " + c.name}, live.GetFinalizers()
	if len(finalizers) > 0 {
		left.Text += " (kept by finalizer " + strings.Join(finalizers, ", ") + ")"
		left.Straggler = c.resource == runGVR && live.GetDeletionTimestamp() != nil
	}
	return &left
}

// isGone: in a namespace that is being deleted our RoleBinding goes early, and
// the namespace controller deletes the rest.
func (r *Reconciler) isGone(namespace string, err error) bool {
	if apierrors.IsNotFound(err) {
		return true
	}
	if !apierrors.IsForbidden(err) {
		return false
	}
	ns, nsErr := r.namespaces.Get(namespace)
	return apierrors.IsNotFound(nsErr) || (nsErr == nil && (ns.DeletionTimestamp != nil || ns.Status.Phase == corev1.NamespaceTerminating))
}
