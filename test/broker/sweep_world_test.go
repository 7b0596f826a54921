package broker_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/injection"
	"knative.dev/pkg/logging"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/reconciler/access"
	"opdev.io/guestcluster/pkg/reconciler/instance/resources"
	"opdev.io/guestcluster/pkg/reconciler/sweep"
	"opdev.io/guestcluster/test/internal/broker"
	"opdev.io/guestcluster/test/internal/server"
)

// collector is who collects garbage in the test's cluster.
const collector = "system:serviceaccount:kube-system:generic-garbage-collector"

// uncollected namespaces are not touched by garbage collection: what it would
// delete within a second must wait for the sweep.
const uncollected = "broker.test/uncollected"

// leftKinds are minimal objects of all kinds that steps and controller make in
// an instance's namespace and that this cluster serves.
var leftKinds = []string{
	`{apiVersion: v1, kind: Service, spec: {ports: [{port: 6443}]}}`,
	`{apiVersion: v1, kind: ServiceAccount}`,
	`{apiVersion: v1, kind: ConfigMap}`,
	`{apiVersion: v1, kind: PersistentVolumeClaim, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`,
	`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, rules: []}`,
	`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: none}}`,
	`{apiVersion: route.openshift.io/v1, kind: Route}`,
	`{apiVersion: tekton.dev/v1, kind: PipelineRun, spec: {pipelineRef: {name: none}}}`,
	`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, spec: {runStrategy: Halted, template: {spec: {domain: {devices: {}}}}}}`,
	`{apiVersion: cdi.kubevirt.io/v1beta1, kind: DataVolume, spec: {source: {blank: {}}, storage: {resources: {requests: {storage: 1Gi}}}}}`,
}

// sweepWorld has instances that lost their finalizer, and no controllers.
type sweepWorld struct {
	*world
	clock *clocktesting.FakePassiveClock
	said  []string
}

func newSweepWorld(t *testing.T) *sweepWorld {
	t.Helper()
	installBundles(t)
	w := &sweepWorld{world: newWorld(t, nil), clock: clocktesting.NewFakePassiveClock(time.Now())}
	w.keepGarbage()
	return w
}

// keepGarbage returns when garbage collection may not delete in the namespace.
func (w *sweepWorld) keepGarbage() {
	w.t.Helper()
	for _, text := range []string{`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: uncollected}
spec:
  matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], operations: [DELETE]}]}
  validations: [{expression: "request.userInfo.username != '` + collector + `'", message: garbage stays here}]`, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: uncollected}
spec:
  policyName: uncollected
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {` + uncollected + `: "true"}}}`} {
		object, err := server.Parse(text)
		if err == nil {
			gvr, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
			gvr.Resource = strings.Replace(gvr.Resource, "policys", "policies", 1)
			_, err = shared.Dynamic.Resource(gvr).Apply(w.t.Context(), object.GetName(), object, metav1.ApplyOptions{FieldManager: "test", Force: true})
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	w.labelNamespace(uncollected, "true")
	config, err := shared.ConfigFor(collector, "system:serviceaccounts")
	if err != nil {
		w.t.Fatal(err)
	}
	secrets := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(w.namespace)
	w.eventually("garbage to stay", func(ctx context.Context) string {
		err := secrets.Delete(ctx, "kube-root-ca.crt", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "garbage stays here") {
			return fmt.Sprintf("the collector may still delete: %v", err)
		}
		return ""
	})
}

func (w *sweepWorld) labelNamespace(key, value string) {
	w.t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, key, value)
	if _, err := shared.Kube.CoreV1().Namespaces().Patch(w.t.Context(), w.namespace, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// born makes an instance that nobody reconciles.
func (w *sweepWorld) born(name string) *v1alpha1.ClusterInstance {
	w.t.Helper()
	i, err := w.instances.Create(w.t.Context(), &v1alpha1.ClusterInstance{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{guestcluster.InstanceFinalizer}},
		Spec:       v1alpha1.ClusterInstanceSpec{Type: v1alpha1.TypeCRC, Template: byHand()},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return i
}

// force removes an instance as a person in a hurry does.
func (w *sweepWorld) force(i *v1alpha1.ClusterInstance) {
	w.t.Helper()
	if _, err := w.instances.Patch(w.t.Context(), i.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
	if err := w.instances.Delete(w.t.Context(), i.Name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// left is one object that a sweep may find.
type left struct {
	gvr    schema.GroupVersionResource
	object *unstructured.Unstructured
}

func (w *sweepWorld) make(object *unstructured.Unstructured) left {
	w.t.Helper()
	gvr, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	made, err := shared.Dynamic.Resource(gvr).Namespace(object.GetNamespace()).Create(w.t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatalf("make %s: %v", object.GetKind(), err)
	}
	return left{gvr, made}
}

func (w *sweepWorld) parse(text, name string) *unstructured.Unstructured {
	w.t.Helper()
	object, err := server.Parse(text)
	if err != nil {
		w.t.Fatal(err)
	}
	object.SetName(name)
	object.SetNamespace(w.namespace)
	return object
}

// children makes one object of each kind that the instance owns.
func (w *sweepWorld) children(i *v1alpha1.ClusterInstance) []left {
	w.t.Helper()
	var all []left
	for _, text := range leftKinds {
		object := w.parse(text, i.DerivedName())
		object.SetOwnerReferences(i.ChildMeta("").OwnerReferences)
		all = append(all, w.make(object))
	}
	return all
}

// clone makes the right to clone that stands beside the bundles.
func (w *sweepWorld) clone(i *v1alpha1.ClusterInstance) left {
	w.t.Helper()
	binding, err := shared.Kube.RbacV1().RoleBindings(guestcluster.BundleNamespace).Create(w.t.Context(), resources.CloneBinding(i), metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = shared.Kube.RbacV1().RoleBindings(binding.Namespace).Delete(context.Background(), binding.Name, metav1.DeleteOptions{})
	})
	gvr := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}
	object, err := shared.Dynamic.Resource(gvr).Namespace(binding.Namespace).Get(w.t.Context(), binding.Name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return left{gvr, object}
}

// stands says whether the object is there and nobody deletes it.
func (w *sweepWorld) stands(l left) bool {
	w.t.Helper()
	live, err := shared.Dynamic.Resource(l.gvr).Namespace(l.object.GetNamespace()).Get(w.t.Context(), l.object.GetName(), metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	return err == nil && live.GetUID() == l.object.GetUID() && live.GetDeletionTimestamp() == nil
}

func (w *sweepWorld) want(what string, standing bool, list ...left) {
	w.t.Helper()
	for _, l := range list {
		if w.stands(l) != standing {
			w.t.Errorf("%s: %s %s stands: %t", what, l.object.GetKind(), l.object.GetName(), !standing)
		}
	}
}

// sweeper is the product's, of this namespace; its passes are the test's.
func (w *sweepWorld) sweeper(config *rest.Config, dryRun bool, wrap func(http.RoundTripper) http.RoundTripper) *sweep.Sweeper {
	w.t.Helper()
	var s *sweep.Sweeper
	broker.StartSet(w.t, config, broker.SetOptions{Namespace: w.namespace, Wrap: wrap, SweepDryRun: dryRun, Controllers: []injection.ControllerConstructor{
		func(ctx context.Context, _ configmap.Watcher) *controller.Impl {
			s = sweep.New(ctx)
			return controller.NewContext(ctx, idle{}, controller.ControllerOptions{WorkQueueName: "idle", Logger: logging.FromContext(ctx)})
		},
	}})
	s.Clock, s.Say = w.clock, func(text string) { w.said = append(w.said, text) }
	return s
}

// idle reconciles nothing.
type idle struct{}

// Reconcile implements controller.Reconciler.
func (idle) Reconcile(context.Context, string) error { return nil }

// rights are the controller's, in this namespace too.
func (w *sweepWorld) rights() *rest.Config {
	w.t.Helper()
	config := shippedRights(w.t.(*testing.T), "201-controller-rbac.yaml", "202-namespace-roles.yaml", "206-bundle-controller-rbac.yaml")
	bindRole(w.t.(*testing.T), w.namespace, access.InstancesRole)
	return config
}

// reported are the Events of a reason about an object.
func (w *sweepWorld) reported(l left, reason string) int {
	w.t.Helper()
	events, err := shared.Kube.CoreV1().Events(l.object.GetNamespace()).List(w.t.Context(), metav1.ListOptions{
		FieldSelector: "involvedObject.uid=" + string(l.object.GetUID()) + ",reason=" + reason})
	if err != nil {
		w.t.Fatal(err)
	}
	total := 0
	for _, e := range events.Items {
		total += int(e.Count)
	}
	return total
}

func (w *sweepWorld) wantEvents(reason string, n int, list ...left) {
	w.t.Helper()
	w.eventually("Events "+reason, func(context.Context) string {
		for _, l := range list {
			if got := w.reported(l, reason); got != n {
				return fmt.Sprintf("%d Events %s of %s %s, want %d", got, reason, l.object.GetKind(), l.object.GetName(), n)
			}
		}
		return ""
	})
}

func total(s *sweep.Sweeper, proof string) int {
	n := 0
	for orphan, count := range s.Counts() {
		if orphan.Proof == proof {
			n += count
		}
	}
	return n
}
