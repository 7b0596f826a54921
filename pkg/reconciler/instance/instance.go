package instance

import (
	"context"
	"time"

	tektonclient "github.com/tektoncd/pipeline/pkg/client/clientset/versioned"
	pipelinelisters "github.com/tektoncd/pipeline/pkg/client/listers/pipeline/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/utils/clock"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/reconciler"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/client/clientset/versioned"
	instancereconciler "opdev.io/guestcluster/pkg/client/injection/reconciler/guestcluster/v1alpha1/clusterinstance"
	listers "opdev.io/guestcluster/pkg/client/listers/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/reconciler/access"
	"opdev.io/guestcluster/pkg/reconciler/catalog"
	"opdev.io/guestcluster/pkg/reconciler/metrics"
	"opdev.io/guestcluster/pkg/reconciler/probe"
)

// Reconciler drives one instance. Effects follow status: what a pass decides is
// written first and acted upon when it is read back, so that a stale cache
// ends in a conflict and not in a second child.
type Reconciler struct {
	client  versioned.Interface
	kube    kubernetes.Interface
	tekton  tektonclient.Interface
	dynamic dynamic.Interface

	instances  listers.ClusterInstanceLister
	leases     listers.ClusterLeaseLister
	pools      listers.ClusterPoolLister
	bundles    listers.CRCBundleLister
	namespaces corelisters.NamespaceLister
	runs       pipelinelisters.PipelineRunLister
	kinds      *kinds

	catalog  *catalog.Catalog
	access   *access.Checker
	prober   probe.Prober
	domain   string
	clock    clock.Clock
	metrics  *metrics.Recorder
	repaired *times
	revoked  *times
	looked   *times
}

var (
	_ instancereconciler.Interface = (*Reconciler)(nil)
	_ instancereconciler.Finalizer = (*Reconciler)(nil)
)

// ReconcileKind implements the generated Interface.
func (r *Reconciler) ReconcileKind(ctx context.Context, i *v1alpha1.ClusterInstance) reconciler.Event {
	original := i.DeepCopy()
	after, err := r.advance(ctx, i)
	if err != nil {
		after, err = r.explain(ctx, i, err)
	}
	if writeErr := r.writeStatus(ctx, original, i); writeErr != nil {
		return writeErr
	}
	if err == nil && after > 0 {
		return controller.NewRequeueAfter(after)
	}
	return err
}

// advance does the next thing; the duration says when to look again at the
// latest, zero that an event will tell.
func (r *Reconciler) advance(ctx context.Context, i *v1alpha1.ClusterInstance) (time.Duration, error) {
	unwanted, err := r.deleteUnwanted(ctx, i)
	switch {
	case err != nil || unwanted:
		return 0, err
	case i.IsFailed():
		return r.cleanUp(ctx, i)
	case i.IsProvisioned():
		return r.serve(ctx, i)
	case i.Status.Run != nil && i.Status.Run.UID != "":
		return r.follow(ctx, i)
	case i.Status.APIEndpoint == "":
		return 0, r.assign(ctx, i)
	case i.Bundle() != "" && i.ChosenBundle() == nil:
		return 0, r.chooseBundle(ctx, i)
	default:
		return 0, r.prepare(ctx, i)
	}
}
