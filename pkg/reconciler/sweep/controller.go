package sweep

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/record"
	kubeclient "knative.dev/pkg/client/injection/kube/client"
	namespaceinformer "knative.dev/pkg/client/injection/kube/informers/core/v1/namespace"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/injection"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/reconciler"

	"opdev.io/guestcluster/pkg/client/clientset/versioned/scheme"
	client "opdev.io/guestcluster/pkg/client/injection/client"
	instanceinformer "opdev.io/guestcluster/pkg/client/injection/informers/guestcluster/v1alpha1/clusterinstance"
	"opdev.io/guestcluster/pkg/reconciler/clocks"
	"opdev.io/guestcluster/pkg/reconciler/metrics"
)

const (
	// every is the pause between two passes.
	every = 10 * time.Minute
	// queueName is part of the election Lease's name: unique among our controllers.
	queueName = "guestcluster-sweep"
)

// key is the only one: a pass looks at everything.
var key = types.NamespacedName{Name: "all"}

type dryRunKey struct{}

// WithDryRun makes NewController's sweep only report, or not.
func WithDryRun(ctx context.Context, dryRun bool) context.Context {
	return context.WithValue(ctx, dryRunKey{}, dryRun)
}

// New makes a Sweeper from the injected clients and informers.
func New(ctx context.Context) *Sweeper {
	dryRun, _ := ctx.Value(dryRunKey{}).(bool)
	logger := logging.FromContext(ctx)
	kube := kubeclient.Get(ctx)
	return &Sweeper{
		Client: client.Get(ctx), Metadata: metadata.NewForConfigOrDie(injection.GetConfig(ctx)), Discovery: kube.Discovery(),
		Instances: instanceinformer.Get(ctx).Lister(), Namespaces: namespaceinformer.Get(ctx).Lister(),
		Events: newRecorder(ctx), Metrics: metrics.New(ctx), Clock: clocks.From(ctx),
		Namespace: injection.GetNamespaceScope(ctx), DryRun: dryRun, Say: func(text string) { logger.Warn(text) },
	}
}

// Reconciler makes a pass when the leader asks for it.
type Reconciler struct {
	reconciler.LeaderAwareFuncs

	sweeper *Sweeper
}

var (
	_ controller.Reconciler  = (*Reconciler)(nil)
	_ reconciler.LeaderAware = (*Reconciler)(nil)
)

// NewController makes the controller that sweeps.
func NewController(ctx context.Context, _ configmap.Watcher) *controller.Impl {
	logger := logging.FromContext(ctx)
	r := &Reconciler{sweeper: New(ctx)}
	r.PromoteFunc = func(bucket reconciler.Bucket, enqueue func(reconciler.Bucket, types.NamespacedName)) error {
		enqueue(bucket, key)
		return nil
	}
	r.DemoteFunc = func(reconciler.Bucket) { r.sweeper.publish(nil) }
	if err := metrics.ObserveOrphans(ctx, r.sweeper.Counts); err != nil {
		logger.Fatalw("register metrics", "error", err)
	}
	impl := controller.NewContext(ctx, r, controller.ControllerOptions{WorkQueueName: queueName, Logger: logger})
	impl.EnqueueKey(key) // who needs no election is never promoted
	return impl
}

// Reconcile makes one pass. An error is told and waits for the next pass like
// everything else: a sweep is in no hurry.
func (r *Reconciler) Reconcile(ctx context.Context, _ string) error {
	if !r.IsLeaderFor(key) {
		return controller.NewSkipKey(key.String())
	}
	if err := r.sweeper.Sweep(ctx); err != nil {
		logging.FromContext(ctx).Warnw("The sweep did not see everything", "error", err)
	}
	return controller.NewRequeueAfter(every)
}

// newRecorder makes what generated reconcilers get for nothing.
func newRecorder(ctx context.Context) record.EventRecorder {
	if recorder := controller.GetEventRecorder(ctx); recorder != nil {
		return recorder
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: kubeclient.Get(ctx).CoreV1().Events("")})
	return broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: queueName})
}
