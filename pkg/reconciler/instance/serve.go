package instance

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/plan"
	"opdev.io/guestcluster/pkg/reconciler/probe"
	"opdev.io/guestcluster/pkg/runs"
)

const (
	repairEvery = 3 * time.Minute
	// repairSoon is for a guest that does not answer: its Service may be gone.
	repairSoon  = 30 * time.Second
	revokeEvery = 24 * time.Hour
)

// serve looks after a provisioned instance: machine, network, probes, its old
// run and rights.
func (r *Reconciler) serve(ctx context.Context, i *v1alpha1.ClusterInstance) (time.Duration, error) {
	guest, guestErr := r.tend(ctx, i)
	if i.IsFailed() {
		return 0, nil
	}
	after := r.probe(i, guest)
	if i.IsFailed() {
		return 0, nil
	}
	left, err := r.dropRun(ctx, i)
	if left > 0 {
		after = min(after, left)
	}
	return after, errors.Join(guestErr, err, r.revokeOnce(ctx, i), r.repairSometimes(ctx, i))
}

// revokeOnce catches rights that outlived the acceptance of the kubeconfig,
// made by another leader or left by an older version.
func (r *Reconciler) revokeOnce(ctx context.Context, i *v1alpha1.ClusterInstance) error {
	if !r.revoked.due(i.UID, r.clock.Now(), revokeEvery) {
		return nil
	}
	err := r.revoke(ctx, i)
	if err != nil {
		r.revoked.forget(i.UID)
	}
	return err
}

// repairSometimes looks at Service and Route: sooner when the guest does not
// answer, at once when the watch saw a change of the Route. Services are not watched.
func (r *Reconciler) repairSometimes(ctx context.Context, i *v1alpha1.ClusterInstance) error {
	every := repairEvery
	if result, ok := r.prober.Result(keyOf(i), probed(i)); ok && result.Err != nil {
		every = repairSoon
	}
	if !r.repaired.due(i.UID, r.clock.Now(), every) {
		return nil
	}
	err := r.repairNetwork(ctx, i)
	if err != nil {
		r.repaired.forget(i.UID)
		return err
	}
	i.MarkAllowed()
	return nil
}

func keyOf(i *v1alpha1.ClusterInstance) types.NamespacedName {
	return types.NamespacedName{Namespace: i.Namespace, Name: i.Name}
}

// probed is what a probe speaks of: the instance, and the machine behind it. A
// machine that runs anew must answer itself.
func probed(i *v1alpha1.ClusterInstance) types.UID {
	if vmi := i.VMIUID(); vmi != "" {
		return i.UID + "/" + vmi
	}
	return i.UID
}

// probe applies the newest result and asks for the next one when it is due.
func (r *Reconciler) probe(i *v1alpha1.ClusterInstance, guest plan.GuestPlan) time.Duration {
	key := keyOf(i)
	result, _ := r.prober.Result(key, probed(i))
	facts := r.probeFacts(i, result)
	facts.Good, facts.Awaited = facts.Good && !guest.Down(), guest.Reason != ""
	next := plan.Probe(facts, r.clock.Now())
	r.applyProbe(i, next.Verdict, guest, result)
	if next.Now && !i.IsFailed() {
		r.prober.Request(key, r.target(i))
	}
	return next.After
}

func (r *Reconciler) target(i *v1alpha1.ClusterInstance) probe.Target {
	i = i.DeepCopy()
	return probe.Target{
		UID: probed(i), Endpoint: i.Status.APIEndpoint, Full: i.Status.ReadyTime == nil,
		Kubeconfig: func(ctx context.Context) ([]byte, error) { return r.kubeconfig(ctx, i) },
	}
}

// kubeconfig is empty when its Secret is gone or not ours: without it the
// instance is of no use, so that counts as a miss.
func (r *Reconciler) kubeconfig(ctx context.Context, i *v1alpha1.ClusterInstance) ([]byte, error) {
	secret, err := r.readHandoff(ctx, i)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil || !metav1.IsControlledBy(secret, i) {
		return nil, err
	}
	return secret.Data[guestcluster.KubeconfigKey], nil
}

func (r *Reconciler) probeFacts(i *v1alpha1.ClusterInstance, result probe.Result) plan.ProbeFacts {
	ready := i.Status.ReadyTime != nil
	facts := plan.ProbeFacts{
		Ready: ready, Claimed: i.Spec.ClaimRef != nil, Probed: result.At, Misses: result.Misses,
		Good: result.Err == nil && (ready || result.Full),
	}
	if c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionGuestAPIReachable); c != nil && c.Status == metav1.ConditionFalse {
		facts.UnreachableSince = c.LastTransitionTime.Time
		facts.Peers, facts.Failing = r.peers(i)
	}
	return facts
}

// peers counts the pool's provisioned instances and those of them that fail.
func (r *Reconciler) peers(i *v1alpha1.ClusterInstance) (all, failing int) {
	if i.Spec.PoolRef == nil {
		return 1, 1
	}
	list, err := r.instances.ClusterInstances(i.Namespace).List(labels.Everything())
	if err != nil {
		return 0, 0
	}
	for _, peer := range list {
		if peer.Spec.PoolRef == nil || peer.Spec.PoolRef.UID != i.Spec.PoolRef.UID ||
			peer.DeletionTimestamp != nil || peer.IsFailed() || !peer.IsProvisioned() {
			continue
		}
		all++
		if meta.IsStatusConditionFalse(peer.Status.Conditions, v1alpha1.ConditionGuestAPIReachable) {
			failing++
		}
	}
	return all, failing
}

func (r *Reconciler) applyProbe(i *v1alpha1.ClusterInstance, verdict plan.ProbeVerdict, guest plan.GuestPlan, result probe.Result) {
	if guest.Reason != "" && (verdict == plan.ProbeUnreachable || verdict == plan.ProbeHeld) {
		return // the machine's state says more, and was said
	}
	switch verdict {
	case plan.ProbeReachable:
		i.MarkReachable(metav1.NewTime(r.clock.Now()))
	case plan.ProbeUnreachable:
		markUnreachable(i, v1alpha1.ReasonGuestAPIUnreachable, unreachableText(i, result))
	case plan.ProbeHeld:
		markUnreachable(i, v1alpha1.ReasonProbeHeld,
			"more than half of the pool does not answer: not replaced, look at ingress and network first; "+unreachableText(i, result))
	case plan.ProbeFailed:
		r.markFailed(i, v1alpha1.ReasonGuestAPIUnreachable, v1alpha1.FailureStatus{Message: unreachableText(i, result)})
	}
}

// markUnreachable keeps the first text: the error's words change from probe to
// probe and would be a write each time.
func markUnreachable(i *v1alpha1.ClusterInstance, reason v1alpha1.Reason, message string) {
	c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionGuestAPIReachable)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != string(reason) {
		i.MarkUnreachable(reason, message)
	}
}

func unreachableText(i *v1alpha1.ClusterInstance, result probe.Result) string {
	return runs.Redact(fmt.Sprintf("the guest API at %s does not answer: %v", i.Status.APIEndpoint, result.Err))
}
