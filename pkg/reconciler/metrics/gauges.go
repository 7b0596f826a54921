package metrics

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	instanceinformer "opdev.io/guestcluster/pkg/client/injection/informers/guestcluster/v1alpha1/clusterinstance"
	leaseinformer "opdev.io/guestcluster/pkg/client/injection/informers/guestcluster/v1alpha1/clusterlease"
	poolinformer "opdev.io/guestcluster/pkg/client/injection/informers/guestcluster/v1alpha1/clusterpool"
	listers "opdev.io/guestcluster/pkg/client/listers/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
	"opdev.io/guestcluster/pkg/reconciler/clocks"
)

var (
	leasePhases = []v1alpha1.LeasePhase{v1alpha1.LeasePending, v1alpha1.LeaseBound, v1alpha1.LeaseReleasing,
		v1alpha1.LeaseReleased, v1alpha1.LeaseFailed}
	instancePhases = []v1alpha1.InstancePhase{v1alpha1.InstanceProvisioning, v1alpha1.InstanceReady,
		v1alpha1.InstanceFailed, v1alpha1.InstanceTerminating}
	breakerStates = []plan.BreakerState{plan.BreakerClosed, plan.BreakerOpen, plan.BreakerHalfOpen}
)

// gauges observes what the informers know.
type gauges struct {
	pools     listers.ClusterPoolLister
	instances listers.ClusterInstanceLister
	leases    listers.ClusterLeaseLister
	clock     clock.PassiveClock

	byLease, byInstance, available, maxSize, breaker metric.Int64ObservableGauge
}

// Observe registers the gauges of pools, instances and leases until ctx ends.
func Observe(ctx context.Context) error {
	g := &gauges{
		pools: poolinformer.Get(ctx).Lister(), instances: instanceinformer.Get(ctx).Lister(), leases: leaseinformer.Get(ctx).Lister(),
		clock: clocks.From(ctx),
	}
	m := otel.Meter(scope)
	if err := g.make(m); err != nil {
		return err
	}
	return register(ctx, m, g.observe, g.byLease, g.byInstance, g.available, g.maxSize, g.breaker)
}

func (g *gauges) make(m metric.Meter) error {
	var errs [5]error
	gauge := func(name, text string, err *error) metric.Int64ObservableGauge {
		made, problem := m.Int64ObservableGauge(name, metric.WithDescription(text))
		*err = problem
		return made
	}
	g.byLease = gauge("guestcluster.leases", "Leases that exist, by phase.", &errs[0])
	g.byInstance = gauge("guestcluster.instances", "Instances that exist, by phase.", &errs[1])
	g.available = gauge("guestcluster.pool.available.instances", "Instances that are Ready and unclaimed.", &errs[2])
	g.maxSize = gauge("guestcluster.pool.max.instances", "The pool's maxSize.", &errs[3])
	g.breaker = gauge("guestcluster.pool.breaker", "1 for the state that the pool's breaker is in, else 0.", &errs[4])
	return errors.Join(errs[:]...)
}

// series is one pool in one phase or state.
type series struct{ namespace, pool, value string }

func (g *gauges) observe(_ context.Context, o metric.Observer) error {
	pools, err := g.pools.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list pools: %w", err)
	}
	now := g.clock.Now()
	for _, p := range pools {
		whole := metric.WithAttributeSet(set(p.Namespace, p.Name))
		o.ObserveInt64(g.maxSize, int64(p.Spec.MaxSize), whole)
		o.ObserveInt64(g.available, int64(p.Status.AvailableInstances), whole)
		for _, state := range breakerStates {
			o.ObserveInt64(g.breaker, one(plan.Breaker(p, now) == state),
				metric.WithAttributeSet(set(p.Namespace, p.Name, attribute.String(stateLabel, string(state)))))
		}
	}
	return errors.Join(g.observeInstances(o, pools), g.observeLeases(o, pools))
}

func (g *gauges) observeInstances(o metric.Observer, pools []*v1alpha1.ClusterPool) error {
	counts := map[series]int64{}
	for _, p := range pools {
		for _, phase := range instancePhases {
			counts[series{p.Namespace, p.Name, string(phase)}] = 0
		}
	}
	list, err := g.instances.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list instances: %w", err)
	}
	for _, i := range list {
		i = &v1alpha1.ClusterInstance{ObjectMeta: i.ObjectMeta, Spec: i.Spec, Status: i.Status}
		i.MarkDerived() // before the first write of status there is no phase
		counts[series{i.Namespace, poolOf(i), string(i.Status.Phase)}]++
	}
	emit(o, g.byInstance, counts)
	return nil
}

func (g *gauges) observeLeases(o metric.Observer, pools []*v1alpha1.ClusterPool) error {
	counts, known := map[series]int64{}, map[string]bool{}
	for _, p := range pools {
		known[p.Namespace+"/"+p.Name] = true
		for _, phase := range leasePhases {
			counts[series{p.Namespace, p.Name, string(phase)}] = 0
		}
	}
	list, err := g.leases.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list leases: %w", err)
	}
	for _, l := range list {
		at := series{l.PoolNamespace(), l.Spec.PoolRef.Name, string(l.Status.Phase)}
		if !known[l.PoolKey()] {
			at.namespace, at.pool = unknown, unknown
		}
		if at.value == "" {
			at.value = string(v1alpha1.LeasePending)
		}
		counts[at]++
	}
	emit(o, g.byLease, counts)
	return nil
}

func emit(o metric.Observer, gauge metric.Int64Observable, counts map[series]int64) {
	for at, n := range counts {
		o.ObserveInt64(gauge, n, metric.WithAttributeSet(set(at.namespace, at.pool, attribute.String(phaseLabel, at.value))))
	}
}

func one(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// Orphan is a group of objects whose instance is gone.
type Orphan struct{ Kind, Proof string }

// ObserveOrphans registers the gauge of what the sweep found until ctx ends.
// Who does not sweep has nothing to observe.
func ObserveOrphans(ctx context.Context, counts func() map[Orphan]int) error {
	m := otel.Meter(scope)
	gauge, err := m.Int64ObservableGauge("guestcluster.orphans",
		metric.WithDescription("Objects of instances that are gone, as the last sweep left them."))
	if err != nil {
		return err
	}
	return register(ctx, m, func(_ context.Context, o metric.Observer) error {
		for orphan, n := range counts() {
			o.ObserveInt64(gauge, int64(n), metric.WithAttributes(
				attribute.String(kindLabel, orphan.Kind), attribute.String(proofLabel, orphan.Proof)))
		}
		return nil
	}, gauge)
}

func register(ctx context.Context, m metric.Meter, observe metric.Callback, instruments ...metric.Observable) error {
	registration, err := m.RegisterCallback(observe, instruments...)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = registration.Unregister() })
	return nil
}
