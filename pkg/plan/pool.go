package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

const (
	// SurplusDelay is how long a pool keeps more spares than wanted.
	SurplusDelay = 2 * time.Minute
	// FailedRetention is how long a Failed instance stays readable while its slot is not wanted.
	FailedRetention = time.Hour
	// breakerBase and breakerMax bound the growing pause of an open breaker.
	breakerBase = 30 * time.Second
	breakerMax  = 10 * time.Minute
)

// PoolInstance is one object that occupies a slot of a pool.
type PoolInstance struct {
	Name            string
	UID             types.UID
	ResourceVersion string
	// Slot is the number in the object's name.
	Slot int32
	// Foreign objects occupy their slot but belong to another pool UID or to nobody.
	Foreign bool
	// Deleting, Ready, Failed: as the object says. Provisioned: was Ready once.
	Deleting, Ready, Provisioned, Failed bool
	// Claimed: has a claimRef. Named: is in a live lease's instanceRef.
	Claimed, Named bool
	// Stale: was made from another template.
	Stale bool
	// ReadyTime is when it first became Ready; Failure says why it never will be.
	ReadyTime time.Time
	Failure   *v1alpha1.FailureStatus
}

func (i PoolInstance) live() bool { return !i.Foreign && !i.Deleting && !i.Failed }

// free instances serve nobody and nobody is about to claim them.
func (i PoolInstance) free() bool { return !i.Claimed && !i.Named }

// PoolFacts is what a pool's supply is decided from.
type PoolFacts struct {
	Spec      v1alpha1.ClusterPoolSpec
	Status    v1alpha1.ClusterPoolStatus
	Instances []PoolInstance
	// Pending counts leases that may use the pool, are not over and are in no claimRef.
	Pending int
	// Allowed says whether instances may be made in the namespace.
	Allowed v1alpha1.Verdict
}

// Deletion is one unclaimed instance to delete, guarded by UID and resourceVersion.
type Deletion struct {
	Name            string
	UID             types.UID
	ResourceVersion string
	Why             string
}

// PoolPlan is what to do for a pool.
type PoolPlan struct {
	// Create lists free slots, lowest first.
	Create []int32
	Delete []Deletion
	// Status has counts, breaker and surplus; conditions are in the verdicts.
	Status                              v1alpha1.ClusterPoolStatus
	Capacity, Allowed, Healthy, Current v1alpha1.Verdict
	// LookAgain is when time alone changes the plan; zero means never.
	LookAgain time.Duration
}

// Pool decides a pool's supply: wanted = max(minSize, claimed + pending +
// warmSpares), capped by maxSize.
//
//	paused or not allowed        | create nothing
//	paused                       | delete nothing but Failed objects after an hour
//	breaker open, pause not over | create nothing
//	breaker open, pause over     | one instance at a time
//	breaker open, new template   | closed
//	fewer live than wanted       | create in the lowest free slots, at most maxConcurrent provisioning
//	no free slot, Failed objects | delete as many of them as slots are wanted
//	more live than wanted, 2 min | delete free ones: beyond maxSize, stale, newest first
//	stale, never Ready           | delete at once: what it waits for may never come
//	stale or over-age spares     | Recreate: stale ones at once; else one at a time while nothing waits
func Pool(f PoolFacts, now time.Time) PoolPlan {
	p := &poolPlanner{PoolFacts: f, now: now, deleting: map[string]bool{}}
	p.count()
	p.breaker()
	p.removeFailed()
	if !f.Spec.Paused {
		p.replaceStale()
		p.scaleDown()
	}
	if !f.Spec.Paused && f.Allowed.OK {
		p.scaleUp()
	}
	p.verdicts()
	return p.plan
}

type poolPlanner struct {
	PoolFacts
	now      time.Time
	plan     PoolPlan
	deleting map[string]bool

	live, claimed, provisioning, available, wanted int
	breakerOpen                                    bool
}

func (p *poolPlanner) count() {
	s := v1alpha1.ClusterPoolStatus{
		ConsecutiveFailures: p.Status.ConsecutiveFailures, LastFailure: p.Status.LastFailure,
		SurplusSince: p.Status.SurplusSince, Conditions: p.Status.Conditions, PendingLeases: int32(p.Pending),
	}
	for _, i := range p.Instances {
		if i.Foreign {
			continue
		}
		s.TotalInstances++
		switch {
		case i.Deleting:
			s.TerminatingInstances++
		case i.Failed:
			s.FailedInstances++
		case !i.Provisioned:
			s.ProvisioningInstances++
		}
		if !i.live() {
			continue
		}
		p.live++
		if i.Claimed {
			s.LeasedInstances++
		}
		if i.Ready {
			s.ReadyInstances++
		}
		if i.Ready && i.free() && !p.withheld(i) {
			s.AvailableInstances++
		}
	}
	p.claimed, p.provisioning, p.available = int(s.LeasedInstances), int(s.ProvisioningInstances), int(s.AvailableInstances)
	p.wanted = min(max(int(p.Spec.MinSize), p.claimed+p.Pending+int(p.Spec.WarmSpares)), int(p.Spec.MaxSize))
	p.plan.Status = s
}

// withheld instances are never handed out.
func (p *poolPlanner) withheld(i PoolInstance) bool {
	return i.Stale && p.Spec.UpdateStrategy == v1alpha1.UpdateRecreate
}

// breaker counts failures in the order of their times, and successes that end
// a row of them. A failure is counted once: it is newer than lastFailure. A
// changed template ends the row, and what was made from an older one adds nothing.
func (p *poolPlanner) breaker() {
	s := &p.plan.Status
	last, newestReady := time.Time{}, time.Time{}
	if s.LastFailure != nil {
		last = s.LastFailure.Time.Time
	}
	for _, i := range p.Instances {
		if !i.Foreign && i.ReadyTime.After(newestReady) {
			newestReady = i.ReadyTime
		}
	}
	if newestReady.After(last) || p.templateChanged() {
		s.ConsecutiveFailures = 0
	}
	for _, i := range p.newFailures() {
		if i.Failure.Time.Time.After(newestReady) && !i.Stale {
			s.ConsecutiveFailures++
		}
		s.LastFailure = i.Failure
		last = i.Failure.Time.Time
	}
	limit := int32(3)
	if p.Spec.Provisioning != nil && p.Spec.Provisioning.RetryLimit > 0 {
		limit = p.Spec.Provisioning.RetryLimit
	}
	if s.ConsecutiveFailures < limit {
		return
	}
	p.breakerOpen = true
	pause := breakerBase << min(s.ConsecutiveFailures-limit, 10)
	next := last.Add(min(pause, breakerMax))
	s.NextAttemptTime = ptrTime(next)
	p.lookAgain(next.Sub(p.now))
}

// templateChanged says that what failed last was made from another template,
// and that nothing has failed since with this one.
func (p *poolPlanner) templateChanged() bool {
	last := p.Status.LastFailure
	changed := false
	for _, i := range p.Instances {
		if i.Foreign || i.Failure == nil {
			continue
		}
		if !i.Stale {
			return false
		}
		changed = changed || last != nil && i.UID == last.InstanceUID
	}
	return changed
}

// newFailures are in order of time; several in one second are told apart by UID.
func (p *poolPlanner) newFailures() []PoolInstance {
	var found []PoolInstance
	for _, i := range p.Instances {
		if i.Foreign || i.Failure == nil || !newerFailure(i.Failure, p.Status.LastFailure) {
			continue
		}
		found = append(found, i)
	}
	slices.SortFunc(found, func(a, b PoolInstance) int { return compareFailures(a.Failure, b.Failure) })
	return found
}

func newerFailure(f, last *v1alpha1.FailureStatus) bool {
	return last == nil || compareFailures(f, last) > 0
}

func compareFailures(a, b *v1alpha1.FailureStatus) int {
	if c := a.Time.Time.Compare(b.Time.Time); c != 0 {
		return c
	}
	return cmp.Compare(a.InstanceUID, b.InstanceUID)
}

func (p *poolPlanner) removeFailed() {
	for _, i := range p.Instances {
		if i.Foreign || i.Deleting || !i.Failed || !i.free() {
			continue
		}
		age := p.now.Sub(i.Failure.Time.Time)
		if age >= FailedRetention {
			p.remove(i, "failed an hour ago")
			continue
		}
		p.lookAgain(FailedRetention - age)
	}
}

// replaceStale deletes spares that are stale or over-age; scaleUp makes new ones.
func (p *poolPlanner) replaceStale() {
	calm := p.Pending == 0 && p.provisioning == 0 && p.plan.Status.TerminatingInstances == 0 && !p.breakerOpen && p.Allowed.OK
	for _, i := range p.Instances {
		if !i.live() || !i.free() {
			continue
		}
		overAge := p.overAge(i)
		switch {
		case p.withheld(i):
			p.remove(i, "its template is stale and updateStrategy is Recreate")
		case i.Stale && !i.Provisioned:
			p.remove(i, "its template is stale and it was never Ready")
		case calm && (i.Stale || overAge) && i.Provisioned:
			why := "its template is stale"
			if overAge {
				why = "it is older than spareMaxAge"
			}
			p.remove(i, why)
			calm = false
		}
	}
}

func (p *poolPlanner) overAge(i PoolInstance) bool {
	limit := 480 * time.Hour
	switch {
	case p.Spec.SpareMaxAge != nil:
		limit = p.Spec.SpareMaxAge.Duration.Duration
	case p.Spec.Type != v1alpha1.TypeCRC:
		return false
	}
	if i.ReadyTime.IsZero() {
		return false
	}
	age := p.now.Sub(i.ReadyTime)
	if age < limit {
		p.lookAgain(limit - age)
	}
	return age >= limit
}

func (p *poolPlanner) scaleDown() {
	excess := p.live - p.wanted
	var idle []PoolInstance
	for _, i := range p.Instances {
		switch {
		case !i.live():
		case p.deleting[i.Name]:
			excess--
		case i.free() && i.Provisioned:
			idle = append(idle, i)
		}
	}
	if excess <= 0 || len(idle) == 0 {
		p.plan.Status.SurplusSince = nil
		return
	}
	if p.plan.Status.SurplusSince == nil {
		p.plan.Status.SurplusSince = ptrTime(p.now)
	}
	if left := SurplusDelay - p.now.Sub(p.plan.Status.SurplusSince.Time); left > 0 {
		p.lookAgain(left)
		return
	}
	slices.SortFunc(idle, p.surplusOrder)
	for _, i := range idle[:min(excess, len(idle))] {
		p.remove(i, "the pool has more spares than wanted")
	}
}

// surplusOrder puts first what should go first.
func (p *poolPlanner) surplusOrder(a, b PoolInstance) int {
	return cmp.Or(
		-compareBool(a.Slot >= p.Spec.MaxSize, b.Slot >= p.Spec.MaxSize),
		-compareBool(a.Stale, b.Stale),
		b.ReadyTime.Compare(a.ReadyTime),
		cmp.Compare(b.Slot, a.Slot),
	)
}

func (p *poolPlanner) scaleUp() {
	need := p.wanted - p.live
	room := int(max(p.Spec.MaxConcurrent, 1)) - p.provisioning
	if p.breakerOpen {
		room = min(room, 1-p.provisioning)
		if p.now.Before(p.plan.Status.NextAttemptTime.Time) {
			room = 0
		}
	}
	need = min(need, room)
	if need <= 0 {
		return
	}
	occupied := map[int32]bool{}
	for _, i := range p.Instances {
		occupied[i.Slot] = true
	}
	fits := min(need, p.freeSlots())
	for slot := int32(0); slot < p.Spec.MaxSize && len(p.plan.Create) < fits; slot++ {
		if !occupied[slot] {
			p.plan.Create = append(p.plan.Create, slot)
		}
	}
	p.vacate(need - len(p.plan.Create))
}

// vacate deletes the oldest Failed objects to make room for as many new ones.
func (p *poolPlanner) vacate(slots int) {
	var failed []PoolInstance
	for _, i := range p.Instances {
		if !i.Foreign && !i.Deleting && i.Failed && i.free() && !p.deleting[i.Name] {
			failed = append(failed, i)
		}
	}
	slices.SortFunc(failed, func(a, b PoolInstance) int { return compareFailures(a.Failure, b.Failure) })
	for _, i := range failed[:max(min(slots, len(failed)), 0)] {
		p.remove(i, "it failed and its slot is wanted")
	}
}

func (p *poolPlanner) remove(i PoolInstance, why string) {
	if p.deleting[i.Name] {
		return
	}
	p.deleting[i.Name] = true
	p.plan.Delete = append(p.plan.Delete, Deletion{Name: i.Name, UID: i.UID, ResourceVersion: i.ResourceVersion, Why: why})
}

func (p *poolPlanner) verdicts() {
	p.plan.Allowed = p.Allowed
	p.plan.Capacity = p.capacity()
	p.plan.Healthy = v1alpha1.Verdict{OK: true, Reason: v1alpha1.ReasonProvisioningHealthy}
	if n := p.plan.Status.ConsecutiveFailures; n > 0 {
		p.plan.Healthy.Message = fmt.Sprintf("instances that failed in a row: %d; last: %s", n, FailureText(p.plan.Status.LastFailure))
	}
	if p.breakerOpen {
		p.plan.Healthy = v1alpha1.Verdict{Reason: v1alpha1.ReasonBreakerOpen, Message: fmt.Sprintf(
			"%d instances in a row failed; next attempt at %s; last: %s", p.plan.Status.ConsecutiveFailures,
			p.plan.Status.NextAttemptTime.UTC().Format(time.RFC3339), FailureText(p.plan.Status.LastFailure))}
	}
	stale := 0
	for _, i := range p.Instances {
		if i.live() && i.Stale && !i.Claimed {
			stale++
		}
	}
	p.plan.Current = v1alpha1.Verdict{OK: true, Reason: v1alpha1.ReasonAllCurrent}
	if stale > 0 {
		p.plan.Current = v1alpha1.Verdict{Reason: v1alpha1.ReasonStaleInstances,
			Message: fmt.Sprintf("%d unclaimed instances have an older template; updateStrategy is %s", stale, p.Spec.UpdateStrategy)}
	}
}

func (p *poolPlanner) capacity() v1alpha1.Verdict {
	switch {
	case p.Pending > p.available && p.freeSlots() == 0:
		return v1alpha1.Verdict{Reason: v1alpha1.ReasonAtCapacity, Message: fmt.Sprintf(
			"%d leases wait and all %d slots are in use: wait for a release or raise maxSize", p.Pending, p.Spec.MaxSize)}
	case p.claimed+int(p.Spec.WarmSpares) > int(p.Spec.MaxSize):
		return v1alpha1.Verdict{Reason: v1alpha1.ReasonMaxSizeTooSmall, Message: fmt.Sprintf(
			"%d leased and %d warm spares need more than maxSize %d: raise maxSize or lower warmSpares", p.claimed, p.Spec.WarmSpares, p.Spec.MaxSize)}
	}
	return v1alpha1.Verdict{OK: true, Reason: v1alpha1.ReasonCapacitySufficient}
}

// freeSlots is how many instances may be created. After maxSize was lowered,
// the pool's own objects beyond it still count against it.
func (p *poolPlanner) freeSlots() int {
	free := int(p.Spec.MaxSize)
	for _, i := range p.Instances {
		if i.Slot < p.Spec.MaxSize || !i.Foreign {
			free--
		}
	}
	return max(free, 0)
}

func (p *poolPlanner) lookAgain(after time.Duration) {
	if after > 0 && (p.plan.LookAgain == 0 || after < p.plan.LookAgain) {
		p.plan.LookAgain = after
	}
}
