package instance

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
	"opdev.io/guestcluster/pkg/reconciler/catalog"
	"opdev.io/guestcluster/pkg/runs"
)

var ingressGVR = schema.GroupVersionResource{Group: "config.openshift.io", Version: "v1", Resource: "ingresses"}

// authorise asks for the namespace's label and the admin's RoleBinding.
func (r *Reconciler) authorise(ctx context.Context, i *v1alpha1.ClusterInstance) error {
	ns, err := r.namespaces.Get(i.Namespace)
	if err != nil {
		return fmt.Errorf("read namespace %s: %w", i.Namespace, err)
	}
	if ns.DeletionTimestamp != nil {
		return &waitError{reason: v1alpha1.ReasonNamespaceTerminating, denied: true,
			message: fmt.Sprintf("namespace %s is being deleted", ns.Name)}
	}
	if ns.Labels[guestcluster.EnabledLabel] != "true" {
		return &waitError{reason: v1alpha1.ReasonNamespaceDisabled, denied: true,
			message: fmt.Sprintf("namespace %s is not opted in: kubectl label namespace %s %s=true", ns.Name, ns.Name, guestcluster.EnabledLabel)}
	}
	command, ok, err := r.access.Instances(ctx, i.Namespace)
	if err != nil {
		return err
	}
	if !ok {
		return &waitError{reason: v1alpha1.ReasonAccessMissing, denied: true, after: lookAgain, message: "an admin must run: " + command}
	}
	i.MarkAllowed()
	return nil
}

// assign fixes the endpoint; it is written before anything is made.
func (r *Reconciler) assign(ctx context.Context, i *v1alpha1.ClusterInstance) error {
	if err := r.authorise(ctx, i); err != nil {
		return err
	}
	domain, err := r.ingressDomain(ctx)
	if err != nil {
		return err
	}
	i.MarkAssigned("https://"+i.Hostname(domain), i.KubeconfigSecretName())
	i.MarkProvisioning(v1alpha1.ReasonPreparing, "the endpoint is assigned")
	return nil
}

func (r *Reconciler) ingressDomain(ctx context.Context) (string, error) {
	if r.domain != "" {
		return r.domain, nil
	}
	config, err := r.dynamic.Resource(ingressGVR).Get(ctx, "cluster", metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("read ingress configuration: %w", err)
	}
	if err == nil {
		if domain, _, _ := unstructured.NestedString(config.Object, "spec", "domain"); domain != "" {
			return domain, nil
		}
	}
	return "", &waitError{reason: v1alpha1.ReasonIngressDomainMissing, after: lookAgain,
		message: "ingresses.config.openshift.io/cluster names no spec.domain: set it, or start the controller with --ingress-domain"}
}

// prepare makes the children and starts the run of the current attempt.
func (r *Reconciler) prepare(ctx context.Context, i *v1alpha1.ClusterInstance) error {
	if err := r.authorise(ctx, i); err != nil {
		return err
	}
	inputs, err := r.inputs(ctx, i)
	if err != nil {
		return err
	}
	pipeline, tasks, err := r.catalog.Lookup(v1alpha1.PipelineName(i.Spec.Type, i.Spec.Provisioning))
	if err != nil {
		return waitForCatalog(err)
	}
	in := runs.Input{Instance: i, Pipeline: pipeline, Tasks: tasks, Timeout: runs.Timeout(i.Spec.Provisioning)}
	if last := i.Status.Run; last != nil {
		in.Attempt = last.Attempt
		if last.StartedAt != nil {
			in.Timeout = plan.TimeLeft(last.StartedAt.Time, r.clock.Now(), in.Timeout)
		}
	}
	run, err := runs.Build(in)
	if err != nil {
		return waitForCatalog(err)
	}
	if err := r.checkFresh(ctx, i); err != nil {
		return err
	}
	if err := r.makeChildren(ctx, i, pipeline.Annotations[guestcluster.StepRoleAnnotation], inputs); err != nil {
		return err
	}
	return r.startRun(ctx, i, run, in.Attempt)
}

func waitForCatalog(err error) error {
	reason := catalog.Reason(err)
	switch reason {
	case "":
		return err
	case v1alpha1.ReasonVirtualizationMissing:
		return &waitError{reason: reason, message: err.Error(), after: catalog.VirtualizationPause}
	}
	return &waitError{reason: reason, message: err.Error()}
}

// checkFresh refuses to make anything for an instance that changed since it was
// read: a leader with an old cache could otherwise start a second run.
func (r *Reconciler) checkFresh(ctx context.Context, i *v1alpha1.ClusterInstance) error {
	live, err := r.client.GuestclusterV1alpha1().ClusterInstances(i.Namespace).Get(ctx, i.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read instance: %w", err)
	}
	if live.UID != i.UID || live.ResourceVersion != i.ResourceVersion {
		return apierrors.NewConflict(v1alpha1.Resource("clusterinstances"), i.Name, fmt.Errorf("it changed since it was read"))
	}
	return nil
}
