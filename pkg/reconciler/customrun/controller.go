package customrun

import (
	"context"
	"fmt"

	"github.com/tektoncd/pipeline/pkg/apis/pipeline/v1beta1"
	tektonclient "github.com/tektoncd/pipeline/pkg/client/injection/client"
	runinformer "github.com/tektoncd/pipeline/pkg/client/injection/informers/pipeline/v1beta1/customrun"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/reconciler"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	client "opdev.io/guestcluster/pkg/client/injection/client"
	leaseinformer "opdev.io/guestcluster/pkg/client/injection/informers/guestcluster/v1alpha1/clusterlease"
	"opdev.io/guestcluster/pkg/reconciler/clocks"
	"opdev.io/guestcluster/pkg/reconciler/event"
	"opdev.io/guestcluster/pkg/reconciler/index"
	"opdev.io/guestcluster/pkg/runs"
)

// queueName is part of the election Lease's name: unique among our controllers.
const queueName = "guestcluster-customrun"

// runsByLease finds the CustomRuns that wait for a lease.
const runsByLease = "guestcluster/custom-runs-by-lease"

// NewController wires the reconciler to CustomRuns of ours and to leases. It is
// none of Tekton's generated ones: those write status of every CustomRun on
// promotion, and over that of others on a conflict.
func NewController(ctx context.Context, _ configmap.Watcher) *controller.Impl {
	logger := logging.FromContext(ctx)
	informer, leases := runinformer.Get(ctx), leaseinformer.Get(ctx)
	r := &Reconciler{
		client: client.Get(ctx),
		tekton: tektonclient.Get(ctx),
		runs:   informer.Lister(),
		leases: leases.Lister(),
		clock:  clocks.From(ctx),
		events: event.NewRecorder(ctx, queueName),
	}
	r.PromoteFunc = r.enqueueAll
	impl := controller.NewContext(ctx, r, controller.ControllerOptions{WorkQueueName: queueName, Logger: logger})
	r.enqueueAfter = impl.EnqueueKeyAfter

	shared := informer.Informer()
	if err := shared.SetTransform(trim); err != nil {
		logger.Fatalw("trim CustomRun informer", "error", err)
	}
	if err := shared.AddIndexers(cache.Indexers{runsByLease: leaseKey}); err != nil {
		logger.Fatalw("add index", "error", err)
	}
	if _, err := shared.AddEventHandler(cache.FilteringResourceEventHandler{FilterFunc: ours, Handler: controller.HandleAll(impl.Enqueue)}); err != nil {
		logger.Fatalw("watch CustomRuns", "error", err)
	}
	if _, err := leases.Informer().AddEventHandler(controller.HandleAll(enqueueRunsOf(shared.GetIndexer(), impl.EnqueueKey))); err != nil {
		logger.Fatalw("watch leases", "error", err)
	}
	return impl
}

func ours(obj any) bool {
	run, ok := obj.(*v1beta1.CustomRun)
	return ok && runs.OurCustomRun(run)
}

func leaseKey(obj any) ([]string, error) {
	if !ours(obj) {
		return nil, nil
	}
	run := obj.(*v1beta1.CustomRun)
	holder := runs.CustomRunRequest(run).Order.Holder
	return []string{run.Namespace + "/" + holder.LeaseName()}, nil
}

// enqueueRunsOf wakes the CustomRuns of a lease.
func enqueueRunsOf(indexer cache.Indexer, enqueue func(types.NamespacedName)) func(any) {
	return func(obj any) {
		lease, ok := index.FinalState(obj).(*v1alpha1.ClusterLease)
		if !ok {
			return
		}
		found, err := indexer.ByIndex(runsByLease, lease.Namespace+"/"+lease.Name)
		if err != nil {
			return
		}
		for _, obj := range found {
			if run, ok := obj.(*v1beta1.CustomRun); ok {
				enqueue(types.NamespacedName{Namespace: run.Namespace, Name: run.Name})
			}
		}
	}
}

// enqueueAll looks at every CustomRun of ours on promotion.
func (r *Reconciler) enqueueAll(bucket reconciler.Bucket, enqueue func(reconciler.Bucket, types.NamespacedName)) error {
	all, err := r.runs.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list CustomRuns: %w", err)
	}
	for _, run := range all {
		if runs.OurCustomRun(run) {
			enqueue(bucket, types.NamespacedName{Namespace: run.Namespace, Name: run.Name})
		}
	}
	return nil
}

// trim makes the informer keep only what tells whose a CustomRun is, and of ours
// what is decided from.
func trim(obj any) (any, error) {
	run, ok := obj.(*v1beta1.CustomRun)
	if !ok {
		return obj, nil
	}
	run.ManagedFields, run.Annotations = nil, nil
	if runs.OurCustomRun(run) {
		return run, nil
	}
	return &v1beta1.CustomRun{TypeMeta: run.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: run.Namespace, Name: run.Name, UID: run.UID, ResourceVersion: run.ResourceVersion,
	}}, nil
}
