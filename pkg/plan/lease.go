package plan

import (
	"fmt"
	"time"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// LeaseRetention is how long an ended lease stays readable.
const LeaseRetention = time.Hour

// Holder is what is known of the PipelineRun that a lease serves.
type Holder int

const (
	// HolderNone: the lease names no holder.
	HolderNone Holder = iota
	// HolderRunning: the run exists, has the UID and has not ended.
	HolderRunning
	// HolderDone: the run has ended, in whatever way.
	HolderDone
	// HolderGone: a live GET showed that the run is deleted, being deleted or another one.
	HolderGone
)

// Hold is what is known of the instance in a lease's instanceRef.
type Hold int

const (
	// HoldNone: the lease names no instance.
	HoldNone Hold = iota
	// HoldGone: no object of that UID exists.
	HoldGone
	// HoldOther: another lease has claimed it.
	HoldOther
	// HoldDeleting: it is being deleted and is not claimed by this lease.
	HoldDeleting
	// HoldOpen: nobody has claimed it and it can be handed out.
	HoldOpen
	// HoldUnready: nobody has claimed it, and it cannot be handed out now.
	HoldUnready
	// HoldOurs: claimed by this lease.
	HoldOurs
	// HoldLost: claimed by this lease, and deleting or failed.
	HoldLost
)

// LeaseFacts is what a lease's next step is decided from.
type LeaseFacts struct {
	Lease  *v1alpha1.ClusterLease
	Holder Holder
	Hold   Hold
	// Policy is the pool's, nil when the pool is unknown or has none.
	Policy *v1alpha1.LeasePolicy
}

// LeaseStep is what to do with a lease next.
type LeaseStep int

const (
	// LeaseWait: nothing to do before an event or LookAgain.
	LeaseWait LeaseStep = iota
	// LeaseClaim: write the claim that instanceRef announced.
	LeaseClaim
	// LeaseForget: clear instanceRef; the instance can never be ours.
	LeaseForget
	// LeaseGiveUp: delete the live unclaimed instance, guarded; instanceRef may be cleared after that.
	LeaseGiveUp
	// LeaseHandOver: make the access Secret and become Bound.
	LeaseHandOver
	// LeaseKeep: all is well; the access Secret must still be there.
	LeaseKeep
	// LeaseRetime: the effective ttl changed.
	LeaseRetime
	// LeaseEnd: give back what is held and end, with Reason and Message.
	LeaseEnd
	// LeaseRemove: delete the ended lease, nobody needs to read it any more.
	LeaseRemove
)

// LeasePlan is the next step of a lease.
type LeasePlan struct {
	Step    LeaseStep
	Reason  v1alpha1.Reason
	Message string
	// TTL is the effective one; nil for none.
	TTL *v1alpha1.Duration
	// LookAgain is when time alone changes the plan; zero means never.
	LookAgain time.Duration
}

// Lease decides a lease's next step.
//
//	ended                     | remove an hour later
//	releasing                 | go on giving back
//	why it must end (endOf)   | give back, end
//	instance: none            | wait for the binding
//	gone, other's, deleting   | forget when not bound, InstanceLost when bound
//	open                      | claim, once the binding had its time to
//	not ready, unclaimed      | give up
//	ours                      | hand over, or keep
//	ours but lost             | InstanceLost
func Lease(f LeaseFacts, now time.Time) LeasePlan {
	l := f.Lease
	if l.Ended() {
		return afterEnd(l, now)
	}
	if l.Status.Phase == v1alpha1.LeaseReleasing {
		return LeasePlan{Step: LeaseEnd, Reason: l.Status.BoundReason(), Message: l.Status.BoundMessage()}
	}
	p := LeasePlan{TTL: EffectiveTTL(l, f.Policy)}
	if reason, message := endOf(f, p.TTL, now); reason != "" {
		return LeasePlan{Step: LeaseEnd, Reason: reason, Message: message}
	}
	p.LookAgain = untilEnd(f, p.TTL, now)
	bound := l.Status.Phase == v1alpha1.LeaseBound
	switch f.Hold {
	case HoldNone:
		p.Step = LeaseWait
	case HoldGone, HoldOther, HoldDeleting:
		p.Step = LeaseForget
		if bound {
			return lost(l)
		}
	case HoldLost:
		return lost(l)
	case HoldOpen:
		p.Step = LeaseClaim
		if pause := claimPause(l, now); pause > 0 {
			return LeasePlan{Step: LeaseWait, TTL: p.TTL, LookAgain: pause}
		}
	case HoldUnready:
		p.Step = LeaseGiveUp
	case HoldOurs:
		p.Step = ours(l, p.TTL)
	}
	return p
}

func ours(l *v1alpha1.ClusterLease, ttl *v1alpha1.Duration) LeaseStep {
	switch {
	case l.Status.Phase != v1alpha1.LeaseBound:
		return LeaseHandOver
	case !sameTTL(l.Status.EffectiveTTL, ttl) || l.Status.ObservedGeneration != l.Generation:
		return LeaseRetime
	default:
		return LeaseKeep
	}
}

func lost(l *v1alpha1.ClusterLease) LeasePlan {
	return LeasePlan{Step: LeaseEnd, Reason: v1alpha1.ReasonInstanceLost, Message: fmt.Sprintf(
		"instance %s/%s was deleted or failed while leased: its cluster is gone, make another lease",
		l.Status.InstanceRef.Namespace, l.Status.InstanceRef.Name)}
}

func afterEnd(l *v1alpha1.ClusterLease, now time.Time) LeasePlan {
	if l.Status.EndedTime == nil {
		return LeasePlan{Step: LeaseRemove}
	}
	if left := LeaseRetention - now.Sub(l.Status.EndedTime.Time); left > 0 {
		return LeasePlan{Step: LeaseWait, LookAgain: left}
	}
	return LeasePlan{Step: LeaseRemove}
}

// endOf says why a lease must end now; no reason when it need not.
func endOf(f LeaseFacts, ttl *v1alpha1.Duration, now time.Time) (v1alpha1.Reason, string) {
	l := f.Lease
	switch {
	case l.Spec.Release:
		return v1alpha1.ReasonReleased, "spec.release was set"
	case f.Holder == HolderDone:
		return v1alpha1.ReasonHolderDone, fmt.Sprintf("PipelineRun %s has ended", l.Spec.HolderRef.Name)
	case f.Holder == HolderGone:
		return v1alpha1.ReasonHolderGone, fmt.Sprintf("PipelineRun %s (UID %s) does not exist", l.Spec.HolderRef.Name, l.Spec.HolderRef.UID)
	case l.Status.BoundTime != nil && ttl != nil && !now.Before(l.Status.BoundTime.Add(ttl.Duration.Duration)):
		return v1alpha1.ReasonExpired, fmt.Sprintf("the ttl of %s is over: ask for a longer one, up to the pool's maxTTL", ttl.Duration.Duration)
	}
	if limit := PendingLimit(l, f.Policy); l.Status.BoundTime == nil && limit > 0 && !now.Before(l.CreationTimestamp.Add(limit)) {
		return v1alpha1.ReasonAcquireTimeout, fmt.Sprintf("not bound within %s; it waited because: %s", limit, waited(l))
	}
	return "", ""
}

func waited(l *v1alpha1.ClusterLease) string {
	if text := l.Status.BoundMessage(); text != "" {
		return fmt.Sprintf("%s: %s", l.Status.BoundReason(), text)
	}
	return "the controller had not looked at it"
}

func untilEnd(f LeaseFacts, ttl *v1alpha1.Duration, now time.Time) time.Duration {
	l := f.Lease
	switch {
	case l.Status.BoundTime != nil && ttl != nil:
		return l.Status.BoundTime.Add(ttl.Duration.Duration).Sub(now)
	case l.Status.BoundTime == nil && PendingLimit(l, f.Policy) > 0:
		return l.CreationTimestamp.Add(PendingLimit(l, f.Policy)).Sub(now)
	}
	return 0
}

// EffectiveTTL is the lease's ttl or the pool's default, capped by the pool's
// maximum, which also holds for leases that name none; nil for no limit.
func EffectiveTTL(l *v1alpha1.ClusterLease, policy *v1alpha1.LeasePolicy) *v1alpha1.Duration {
	ttl := l.Spec.TTL
	if policy == nil {
		if ttl == nil {
			return l.Status.EffectiveTTL
		}
		return ttl
	}
	if ttl == nil {
		ttl = policy.DefaultTTL
	}
	if policy.MaxTTL != nil && (ttl == nil || ttl.Duration.Duration > policy.MaxTTL.Duration.Duration) {
		return policy.MaxTTL
	}
	return ttl
}

// PendingLimit is how long a lease may wait, from its creation; zero for ever.
func PendingLimit(l *v1alpha1.ClusterLease, policy *v1alpha1.LeasePolicy) time.Duration {
	var limit time.Duration
	if l.Spec.AcquireTimeout != nil {
		limit = l.Spec.AcquireTimeout.Duration.Duration
	}
	if policy != nil && policy.MaxPending != nil {
		if most := policy.MaxPending.Duration.Duration; limit == 0 || most < limit {
			limit = most
		}
	}
	return limit
}

func sameTTL(a, b *v1alpha1.Duration) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Duration.Duration == b.Duration.Duration
}
