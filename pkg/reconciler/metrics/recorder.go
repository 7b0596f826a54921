package metrics

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"knative.dev/pkg/logging"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
)

const scope = "opdev.io/guestcluster"

// Labels. Pools bound their number: no lease, instance or run is named.
const (
	poolNamespaceLabel = "pool_namespace"
	poolLabel          = "pool"
	phaseLabel         = "phase"
	startLabel         = "start"
	pipelineLabel      = "pipeline"
	outcomeLabel       = "outcome"
	reasonLabel        = "reason"
	stateLabel         = "state"
	kindLabel          = "kind"
	proofLabel         = "proof"
)

// ReasonDeleted is how a lease ends that was deleted while it was in use.
const ReasonDeleted = "Deleted"

// Values of label pool that no pool can have.
const (
	standalone = "(standalone)"
	unknown    = "(unknown)"
)

// Recorder counts transitions. Those that are made later count on the same series.
type Recorder struct {
	wait          metric.Float64Histogram
	provisioning  metric.Float64Histogram
	runs          metric.Int64Counter
	releases      metric.Int64Counter
	orphanDeleted metric.Int64Counter
}

// New makes a Recorder on the process's meter.
func New(ctx context.Context) *Recorder {
	r, err := newRecorder(otel.Meter(scope))
	if err != nil {
		logging.FromContext(ctx).Fatalw("make metrics", "error", err)
	}
	return r
}

func newRecorder(m metric.Meter) (*Recorder, error) {
	r := &Recorder{}
	var errs [5]error
	r.wait, errs[0] = m.Float64Histogram("guestcluster.lease.wait", metric.WithUnit("s"),
		metric.WithDescription("From a lease's creation to Bound; warm: an instance was Ready before it."),
		metric.WithExplicitBucketBoundaries(0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600))
	r.provisioning, errs[1] = m.Float64Histogram("guestcluster.provisioning.duration", metric.WithUnit("s"),
		metric.WithDescription("From an instance's creation to its first Ready."),
		metric.WithExplicitBucketBoundaries(5, 15, 30, 60, 120, 300, 600, 900, 1200, 1800, 2700, 3600, 7200))
	r.runs, errs[2] = m.Int64Counter("guestcluster.runs",
		metric.WithDescription("Runs that ended, of provisioning and bundles (those without a pool), by outcome."))
	r.releases, errs[3] = m.Int64Counter("guestcluster.releases",
		metric.WithDescription("Leases that ended, by reason."))
	r.orphanDeleted, errs[4] = m.Int64Counter("guestcluster.orphans.deleted",
		metric.WithDescription("Objects of instances that are gone, deleted by the sweep."))
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Bound counts how long a lease waited for its instance.
func (r *Recorder) Bound(ctx context.Context, lease *v1alpha1.ClusterLease, i *v1alpha1.ClusterInstance) {
	start := "cold"
	if plan.Warm(lease, i) {
		start = "warm"
	}
	waited := max(0, lease.Status.BoundTime.Sub(lease.CreationTimestamp.Time))
	r.wait.Record(ctx, waited.Seconds(), metric.WithAttributeSet(set(lease.PoolNamespace(), lease.Spec.PoolRef.Name, attribute.String(startLabel, start))))
}

// Released counts the end of a lease. A pool that does not exist has no label
// of its own: whoever makes leases could name any number of them.
func (r *Recorder) Released(ctx context.Context, lease *v1alpha1.ClusterLease, poolExists bool, reason string) {
	namespace, pool := lease.PoolNamespace(), lease.Spec.PoolRef.Name
	if !poolExists && lease.Status.InstanceRef == nil {
		namespace, pool = unknown, unknown
	}
	r.releases.Add(ctx, 1, metric.WithAttributeSet(set(namespace, pool, attribute.String(reasonLabel, reason))))
}

// Instance counts what one write of status meant: the end of a run, the first Ready.
func (r *Recorder) Instance(ctx context.Context, before, after *v1alpha1.ClusterInstance) {
	if outcome := plan.RunEnded(plan.InstanceRecord(before.Status), plan.InstanceRecord(after.Status)); outcome != "" {
		pipeline := v1alpha1.PipelineName(after.Spec.Type, after.Spec.Provisioning)
		r.run(ctx, after.Namespace, poolOf(after), pipeline, outcome)
	}
	if before.Status.ReadyTime == nil && after.Status.ReadyTime != nil {
		took := after.Status.ReadyTime.Sub(after.CreationTimestamp.Time)
		r.provisioning.Record(ctx, max(0, took).Seconds(), metric.WithAttributeSet(set(after.Namespace, poolOf(after))))
	}
}

// Bundle counts the end of a prepare-bundle run.
func (r *Recorder) Bundle(ctx context.Context, before, after *v1alpha1.CRCBundle, pipeline string) {
	if outcome := plan.RunEnded(plan.BundleRecord(before.Status), plan.BundleRecord(after.Status)); outcome != "" {
		r.run(ctx, "", "", pipeline, outcome)
	}
}

// OrphanDeleted counts what the sweep deletes.
func (r *Recorder) OrphanDeleted(ctx context.Context, kind string) {
	r.orphanDeleted.Add(ctx, 1, metric.WithAttributes(attribute.String(kindLabel, kind)))
}

func (r *Recorder) run(ctx context.Context, namespace, pool, pipeline string, outcome plan.RunOutcome) {
	r.runs.Add(ctx, 1, metric.WithAttributeSet(set(namespace, pool,
		attribute.String(pipelineLabel, pipeline), attribute.String(outcomeLabel, string(outcome)))))
}

func poolOf(i *v1alpha1.ClusterInstance) string {
	if i.Spec.PoolRef == nil {
		return standalone
	}
	return i.Spec.PoolRef.Name
}

func set(namespace, pool string, more ...attribute.KeyValue) attribute.Set {
	return attribute.NewSet(append(more, attribute.String(poolNamespaceLabel, namespace), attribute.String(poolLabel, pool))...)
}
