package instance

import (
	"context"
	"testing"
	"time"

	tektonfake "github.com/tektoncd/pipeline/pkg/client/clientset/versioned/fake"
	pipelinelisters "github.com/tektoncd/pipeline/pkg/client/listers/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"knative.dev/pkg/controller"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	clientfake "opdev.io/guestcluster/pkg/client/clientset/versioned/fake"
	listers "opdev.io/guestcluster/pkg/client/listers/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/reconciler/instance/resources"
	"opdev.io/guestcluster/pkg/reconciler/metrics"
	"opdev.io/guestcluster/pkg/reconciler/probe"
)

var worldNow = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// world is a reconciler over fake clients; caches are filled by hand, so that
// they can lag behind.
type world struct {
	*Reconciler
	ctx     context.Context
	client  *clientfake.Clientset
	kube    *kubefake.Clientset
	dynamic *dynamicfake.FakeDynamicClient
	cached  cache.Indexer
	events  *record.FakeRecorder
}

// noProbes never has a result.
type noProbes struct{}

func (noProbes) Request(types.NamespacedName, probe.Target) {}
func (noProbes) Result(types.NamespacedName, types.UID) (probe.Result, bool) {
	return probe.Result{}, false
}
func (noProbes) Forget(types.NamespacedName) {}

// newWorld has the objects in the API: ours, and children for the dynamic client.
func newWorld(t *testing.T, ours, children []runtime.Object) *world {
	t.Helper()
	lists := map[schema.GroupVersionResource]string{runGVR: "PipelineRunList"}
	w := &world{
		client: clientfake.NewSimpleClientset(ours...), kube: kubefake.NewSimpleClientset(),
		dynamic: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, children...),
		cached:  newIndexer(), events: record.NewFakeRecorder(100),
	}
	w.ctx = controller.WithEventRecorder(t.Context(), w.events)
	w.Reconciler = &Reconciler{
		client: w.client, kube: w.kube, tekton: tektonfake.NewSimpleClientset(), dynamic: w.dynamic,
		instances: listers.NewClusterInstanceLister(newIndexer()), leases: listers.NewClusterLeaseLister(newIndexer()),
		pools: listers.NewClusterPoolLister(w.cached), namespaces: corelisters.NewNamespaceLister(namespaces(t)),
		runs: pipelinelisters.NewPipelineRunLister(newIndexer()), prober: noProbes{},
		clock: clocktesting.NewFakeClock(worldNow), metrics: metrics.New(t.Context()), repaired: newTimes(), revoked: newTimes(), looked: newTimes(),
		bundles: listers.NewCRCBundleLister(newIndexer()), kinds: &kinds{},
	}
	return w
}

func newIndexer() cache.Indexer {
	return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
}

func namespaces(t *testing.T) cache.Indexer {
	t.Helper()
	list := newIndexer()
	if err := list.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ci"}}); err != nil {
		t.Fatal(err)
	}
	return list
}

// asChild is an object of the instance, as the dynamic client sees it.
func asChild(i *v1alpha1.ClusterInstance, gv schema.GroupVersion, kind, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(gv.WithKind(kind))
	object.SetNamespace(i.Namespace)
	object.SetName(name)
	object.SetUID(types.UID(kind + "-" + name))
	object.SetOwnerReferences(resources.ServiceAccount(i).OwnerReferences)
	return object
}

// deletions returns how the client was asked to delete objects of a resource.
func deletions(actions []clienttesting.Action, resource string) (list []clienttesting.DeleteActionImpl) {
	for _, action := range actions {
		if d, ok := action.(clienttesting.DeleteActionImpl); ok && d.GetResource().Resource == resource {
			list = append(list, d)
		}
	}
	return list
}

// notServedError is what a client makes of the 404 for an API that is not there.
func notServedError(gvr schema.GroupVersionResource) error {
	return apierrors.NewGenericServerResponse(404, "GET", gvr.GroupResource(), "", "404 page not found", 0, true)
}
