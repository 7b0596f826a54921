package plan

import "time"

const (
	probeInterval     = time.Minute
	probeFastInterval = 5 * time.Second
	probeMisses       = 3
	// probeTrust is two intervals: what a leader remembers from an earlier term
	// says nothing of the guest now. It is no shorter before Ready, since probes
	// take longer then than the pause between them.
	probeTrust         = 2 * probeInterval
	unreachableTooLong = 10 * time.Minute
)

// ProbeFacts is what is known of the guest API of a provisioned instance.
type ProbeFacts struct {
	// Ready: the instance was Ready once. Claimed: it serves a lease.
	Ready, Claimed bool
	// Probed is when the last probe ended; zero if none did since the start.
	Probed time.Time
	// Awaited: the guest starts again; it is asked as often as one that was never Ready.
	Awaited bool
	// Good: it succeeded, and in full if the instance was not Ready yet.
	Good bool
	// Misses is how many failed in a row.
	Misses int
	// UnreachableSince is zero while the instance counts as reachable.
	UnreachableSince time.Time
	// Peers are the pool's provisioned instances, this one included; Failing
	// those of them that are unreachable.
	Peers, Failing int
}

// ProbeVerdict is what the probes say about an instance.
type ProbeVerdict int

const (
	// ProbeUndecided changes nothing.
	ProbeUndecided ProbeVerdict = iota
	// ProbeReachable makes it Ready.
	ProbeReachable
	// ProbeUnreachable keeps it from being handed out.
	ProbeUnreachable
	// ProbeHeld spares it: so many fail at once that the cause is elsewhere. One
	// that was never Ready is not worth sparing: its topology may never work.
	ProbeHeld
	// ProbeFailed ends it, so that the pool replaces it.
	ProbeFailed
)

// ProbePlan is a verdict and whether to probe now or After.
type ProbePlan struct {
	Verdict ProbeVerdict
	Now     bool
	After   time.Duration
}

// Probe decides.
//
//	no probe in the last two minutes        undecided
//	last probe good                         reachable
//	fewer than 3 misses, not unreachable    undecided
//	unreachable below 10 minutes, claimed   unreachable
//	longer, over half of 2 or more fail     held, if it was Ready once
//	longer                                  failed
func Probe(f ProbeFacts, now time.Time) ProbePlan {
	if now.Sub(f.Probed) > probeTrust {
		f.Probed = time.Time{}
	}
	interval := probeInterval
	if !f.Ready || f.Awaited {
		interval = probeFastInterval
	}
	plan := ProbePlan{Verdict: probeVerdict(f, now)}
	due := f.Probed.Add(interval).Sub(now)
	plan.Now = f.Probed.IsZero() || due <= 0
	plan.After = due
	if plan.Now {
		plan.After = interval
	}
	return plan
}

func probeVerdict(f ProbeFacts, now time.Time) ProbeVerdict {
	unreachable := !f.UnreachableSince.IsZero()
	switch {
	case f.Probed.IsZero():
		return ProbeUndecided
	case f.Good:
		return ProbeReachable
	case f.Misses == 0 || (f.Misses < probeMisses && !unreachable):
		return ProbeUndecided
	case f.Claimed || !unreachable || now.Sub(f.UnreachableSince) < unreachableTooLong:
		return ProbeUnreachable
	case f.Ready && f.Peers > 1 && 2*f.Failing > f.Peers:
		return ProbeHeld
	}
	return ProbeFailed
}
