package instance

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/reconciler/instance/resources"
)

// creator is the part of a typed client that ensure needs.
type creator[T metav1.Object] interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (T, error)
	Create(ctx context.Context, object T, o metav1.CreateOptions) (T, error)
}

// ensure returns the child of that name, made if it is absent. An object of
// another owner is never written.
func ensure[T metav1.Object](ctx context.Context, c creator[T], i *v1alpha1.ClusterInstance, kind, name string, build func() (T, error)) (T, error) {
	var none T
	live, err := c.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		want, buildErr := build()
		if buildErr != nil {
			return none, fmt.Errorf("build %s %s: %w", kind, name, buildErr)
		}
		live, err = c.Create(ctx, want, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			live, err = c.Get(ctx, name, metav1.GetOptions{})
		}
	}
	if err != nil {
		return none, fmt.Errorf("make %s %s: %w", kind, name, err)
	}
	if !resources.Owns(i, live) {
		return none, &foreignError{kind: kind, namespace: live.GetNamespace(), name: name}
	}
	return live, nil
}

// always adapts a builder that cannot fail.
func always[T any](object T) func() (T, error) {
	return func() (T, error) { return object, nil }
}

func (r *Reconciler) makeChildren(ctx context.Context, i *v1alpha1.ClusterInstance, stepRole string, in *resources.Inputs) error {
	name := i.DerivedName()
	core, rbac := r.kube.CoreV1(), r.kube.RbacV1()
	if _, err := ensure(ctx, core.ServiceAccounts(i.Namespace), i, "ServiceAccount", name, always(resources.ServiceAccount(i))); err != nil {
		return err
	}
	if err := r.makeSecrets(ctx, i, in); err != nil {
		return err
	}
	if err := r.makeGather(ctx, i); err != nil {
		return err
	}
	if _, err := ensure(ctx, rbac.Roles(i.Namespace), i, "Role", name, always(resources.Role(i))); err != nil {
		return err
	}
	if _, err := ensure(ctx, rbac.RoleBindings(i.Namespace), i, "RoleBinding", name, always(resources.RoleBinding(i))); err != nil {
		return err
	}
	if err := r.bindStepRole(ctx, i, stepRole); err != nil {
		return err
	}
	if err := r.bindCloneRole(ctx, i); err != nil {
		return err
	}
	return r.repairNetwork(ctx, i)
}

// bindStepRole gives the steps the ClusterRole that the Pipeline asks for.
func (r *Reconciler) bindStepRole(ctx context.Context, i *v1alpha1.ClusterInstance, role string) error {
	if role == "" {
		return nil
	}
	name, want := resources.StepsBindingName(i), resources.StepsBinding(i, role)
	_, err := ensure(ctx, r.kube.RbacV1().RoleBindings(i.Namespace), i, "RoleBinding", name, always(want))
	return mayNotBind(err, role, "annotation "+guestcluster.StepRoleAnnotation)
}

// bindCloneRole lets the steps clone the golden volume, beside which it stands.
func (r *Reconciler) bindCloneRole(ctx context.Context, i *v1alpha1.ClusterInstance) error {
	if i.Bundle() == "" {
		return nil
	}
	want := resources.CloneBinding(i)
	_, err := ensure(ctx, r.kube.RbacV1().RoleBindings(want.Namespace), i, "RoleBinding", want.Name, always(want))
	return mayNotBind(err, guestcluster.CloneRole, "in namespace "+want.Namespace)
}

// mayNotBind explains that the API server refuses a binding because of what it grants.
func mayNotBind(err error, role, why string) error {
	if err == nil || !strings.Contains(err.Error(), "attempting to grant RBAC permissions") {
		return err
	}
	return &waitError{reason: v1alpha1.ReasonAccessMissing, denied: true, after: lookAgain, message: fmt.Sprintf(
		"the Pipeline's steps need ClusterRole %s (%s), which the controller may not bind: give it verb bind on that ClusterRole", role, why)}
}

func (r *Reconciler) makeSecrets(ctx context.Context, i *v1alpha1.ClusterInstance, in *resources.Inputs) error {
	secrets := r.kube.CoreV1().Secrets(i.Namespace)
	identity := func() (*corev1.Secret, error) {
		return resources.IdentitySecret(i, endpointHost(i), in, r.clock.Now())
	}
	if _, err := ensure(ctx, secrets, i, "Secret", i.IdentitySecretName(), identity); err != nil {
		return err
	}
	_, err := ensure(ctx, secrets, i, "Secret", i.KubeconfigSecretName(), always(resources.KubeconfigSecret(i)))
	return err
}

// makeGather makes what step gather fills: a right to make ConfigMaps cannot be
// bound to one name.
func (r *Reconciler) makeGather(ctx context.Context, i *v1alpha1.ClusterInstance) error {
	if i.Spec.Type != v1alpha1.TypeCRC {
		return nil
	}
	_, err := ensure(ctx, r.kube.CoreV1().ConfigMaps(i.Namespace), i, "ConfigMap", i.GatherName(), always(resources.GatherConfigMap(i)))
	return err
}

// ifFresh builds a child only for an instance that is as it was read: with an
// old cache, what another leader destroyed would be made again and again.
func ifFresh[T any](ctx context.Context, r *Reconciler, i *v1alpha1.ClusterInstance, object T) func() (T, error) {
	return func() (T, error) { return object, r.checkFresh(ctx, i) }
}

// repairNetwork makes Service and Route, and sets right what somebody changed.
func (r *Reconciler) repairNetwork(ctx context.Context, i *v1alpha1.ClusterInstance) error {
	services, want := r.kube.CoreV1().Services(i.Namespace), resources.Service(i)
	live, err := ensure(ctx, services, i, "Service", want.Name, ifFresh(ctx, r, i, want))
	if err != nil {
		return err
	}
	if fixed := resources.RepairService(live, want); fixed != nil {
		if _, err := services.Update(ctx, fixed, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("repair Service %s: %w", want.Name, err)
		}
	}
	return r.repairRoute(ctx, i)
}

// plain gives a dynamic client the methods of a typed one.
type plain struct{ dynamic.ResourceInterface }

func (p plain) Get(ctx context.Context, name string, o metav1.GetOptions) (*unstructured.Unstructured, error) {
	return p.ResourceInterface.Get(ctx, name, o)
}

func (p plain) Create(ctx context.Context, object *unstructured.Unstructured, o metav1.CreateOptions) (*unstructured.Unstructured, error) {
	return p.ResourceInterface.Create(ctx, object, o)
}

func (r *Reconciler) repairRoute(ctx context.Context, i *v1alpha1.ClusterInstance) error {
	want, err := resources.Route(i, endpointHost(i))
	if err != nil {
		return fmt.Errorf("build Route: %w", err)
	}
	c := plain{r.dynamic.Resource(routeGVR).Namespace(i.Namespace)}
	live, err := ensure(ctx, creator[*unstructured.Unstructured](c), i, "Route", want.GetName(), ifFresh(ctx, r, i, want))
	if notServed(err) {
		return &waitError{reason: v1alpha1.ReasonRouteAPIMissing, after: lookAgain, message: "this cluster does not serve routes of " +
			routeGVR.GroupVersion().String() + ", by which guests are reached: run on OpenShift, or install the CRD and a router"}
	}
	if err != nil || !resources.RouteDiffers(live, want) {
		return err
	}
	// A Route's host cannot be changed without a right of its own: make it anew.
	if err := c.Delete(ctx, want.GetName(), onlyThis(live.GetUID())); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete changed Route %s: %w", want.GetName(), err)
	}
	if _, err := c.Create(ctx, want, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make Route %s: %w", want.GetName(), err)
	}
	return nil
}

// notServed tells a 404 for a whole API from one for an object.
func notServed(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

func endpointHost(i *v1alpha1.ClusterInstance) string {
	u, err := url.Parse(i.Status.APIEndpoint)
	if err != nil {
		return ""
	}
	return u.Hostname()
}
