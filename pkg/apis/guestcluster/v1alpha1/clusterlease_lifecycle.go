package v1alpha1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BoundFacts is what a lease learns of its instance when it is bound.
type BoundFacts struct {
	// Secret is the name of the access Secret.
	Secret string
	// OCPVersion, Topology and APIEndpoint are copied from the instance.
	OCPVersion, Topology, APIEndpoint string
	// TTL is the effective ttl; nil means that only release or the holder ends the lease.
	TTL *Duration
}

// PoolNamespace is the namespace of the lease's pool.
func (l *ClusterLease) PoolNamespace() string {
	if l.Spec.PoolRef.Namespace != "" {
		return l.Spec.PoolRef.Namespace
	}
	return l.Namespace
}

// PoolKey is namespace/name of the lease's pool.
func (l *ClusterLease) PoolKey() string {
	return l.PoolNamespace() + "/" + l.Spec.PoolRef.Name
}

// AccessSecretName is the name of the Secret with the lease's kubeconfig.
func (l *ClusterLease) AccessSecretName() string {
	return l.Name + "-access"
}

// Claim is the claimRef that makes an instance serve this lease.
func (l *ClusterLease) Claim() ClaimReference {
	return ClaimReference{LeaseNamespace: l.Namespace, LeaseName: l.Name, LeaseUID: l.UID}
}

// Ended says whether the lease is Released or Failed.
func (l *ClusterLease) Ended() bool {
	return l.Status.Phase == LeaseReleased || l.Status.Phase == LeaseFailed
}

// Ending says whether the lease was told to give its instance back, or has.
func (l *ClusterLease) Ending() bool {
	return l.Ended() || l.Status.Phase == LeaseReleasing
}

// Wanted says whether somebody still wants the lease's cluster, whatever its phase
// before the end.
func (l *ClusterLease) Wanted() bool {
	return l.DeletionTimestamp == nil && !l.Spec.Release && !l.Ending()
}

// BoundReason is the reason of condition Bound.
func (s *ClusterLeaseStatus) BoundReason() Reason {
	return reasonOf(s.Conditions, ConditionBound)
}

// BoundMessage is the message of condition Bound.
func (s *ClusterLeaseStatus) BoundMessage() string {
	if c := meta.FindStatusCondition(s.Conditions, ConditionBound); c != nil {
		return c.Message
	}
	return ""
}

// MarkWaiting says why the lease waits and where it stands in the queue;
// position 0 means that it is not queued.
func (l *ClusterLease) MarkWaiting(reason Reason, message string, position int32, asOf metav1.Time) {
	l.Status.Phase = LeasePending
	l.Status.QueuePosition = position
	l.Status.QueuePositionTime = nil
	if position > 0 {
		l.Status.QueuePositionTime = &asOf
	}
	l.setBound(metav1.ConditionUnknown, reason, message)
}

// MarkClaiming names the instance that is about to be claimed.
func (l *ClusterLease) MarkClaiming(instance ObjectReference, now metav1.Time) {
	l.Status.Phase = LeasePending
	l.Status.InstanceRef, l.Status.ClaimedTime = &instance, &now
	l.Status.QueuePosition, l.Status.QueuePositionTime = 0, nil
	l.setBound(metav1.ConditionUnknown, ReasonClaiming, fmt.Sprintf("claiming instance %s/%s", instance.Namespace, instance.Name))
}

// MarkUnclaimed forgets an instance that this lease can no longer get. The
// caller has seen by a live GET that it is gone, deleting or claimed by another.
func (l *ClusterLease) MarkUnclaimed(message string) {
	l.Status.InstanceRef, l.Status.ClaimedTime = nil, nil
	l.MarkWaiting(ReasonWaitingForCapacity, message, 0, metav1.Time{})
}

// MarkBlocked says why a claimed instance could not be handed over yet.
func (l *ClusterLease) MarkBlocked(reason Reason, message string) {
	l.setBound(metav1.ConditionUnknown, reason, message)
}

// MarkBound says that the access Secret exists and the lease holds its instance.
func (l *ClusterLease) MarkBound(facts BoundFacts, now metav1.Time) {
	s := &l.Status
	s.Phase = LeaseBound
	s.KubeconfigSecretRef = &LocalReference{Name: facts.Secret}
	s.OCPVersion, s.Topology, s.APIEndpoint = facts.OCPVersion, facts.Topology, facts.APIEndpoint
	s.BoundTime = &now
	s.QueuePosition, s.QueuePositionTime = 0, nil
	l.MarkTTL(facts.TTL)
}

// MarkTTL sets the effective ttl and, once bound, when it is over. A Bound lease
// says so when its pool caps the ttl.
func (l *ClusterLease) MarkTTL(ttl *Duration) {
	s := &l.Status
	s.EffectiveTTL, s.ExpiresAt = ttl, nil
	if ttl != nil && s.BoundTime != nil {
		s.ExpiresAt = &metav1.Time{Time: s.BoundTime.Add(ttl.Duration.Duration)}
	}
	if s.Phase == LeaseBound && s.InstanceRef != nil && s.KubeconfigSecretRef != nil {
		l.setBound(metav1.ConditionTrue, ReasonInstanceBound, l.boundText())
	}
}

func (l *ClusterLease) boundText() string {
	s := l.Status
	text := fmt.Sprintf("instance %s/%s; kubeconfig in Secret %s", s.InstanceRef.Namespace, s.InstanceRef.Name, s.KubeconfigSecretRef.Name)
	if asked, got := l.Spec.TTL, s.EffectiveTTL; asked != nil && got != nil && asked.Duration.Duration > got.Duration.Duration {
		text += fmt.Sprintf("; ttl %s is capped to %s by the pool's maxTTL", asked.Duration.Duration, got.Duration.Duration)
	}
	return text
}

// MarkReleasing says that the instance is being given back, and why.
func (l *ClusterLease) MarkReleasing(reason Reason, message string) {
	l.Status.Phase = LeaseReleasing
	l.setBound(metav1.ConditionFalse, reason, message)
}

// MarkEnded says that the lease is over: Released when it was bound or was
// released by its user, Failed when it never was, or lost its instance.
func (l *ClusterLease) MarkEnded(reason Reason, message string, now metav1.Time) {
	l.Status.Phase = LeaseFailed
	if reason == ReasonReleased || (l.Status.BoundTime != nil && reason != ReasonInstanceLost) {
		l.Status.Phase = LeaseReleased
	}
	l.Status.EndedTime = &now
	l.Status.QueuePosition, l.Status.QueuePositionTime = 0, nil
	l.setBound(metav1.ConditionFalse, reason, message)
}

func (l *ClusterLease) setBound(status metav1.ConditionStatus, reason Reason, message string) {
	l.Status.ObservedGeneration = l.Generation
	setCondition(&l.Status.Conditions, l.Generation, ConditionBound, status, reason, message)
	setCondition(&l.Status.Conditions, l.Generation, ConditionReady, status, reason, message)
}
