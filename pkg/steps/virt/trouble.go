package virt

import (
	"math"
	"time"

	"opdev.io/guestcluster/pkg/steps/step"
)

// Forever is the grace of trouble that is waited out until the deadline.
const Forever = time.Duration(math.MaxInt64)

// Trouble is something wrong that may pass by itself. The zero value is none.
type Trouble struct {
	// Kind tells one trouble from another; its text may change as it lasts.
	Kind string
	// Text says what is wrong and what to do.
	Text string
	// Grace is how long it is tolerated.
	Grace time.Duration
	// Code is the exit code when it lasts.
	Code int
}

// Patience knows since when the same trouble lasts.
type Patience struct {
	// Now is the clock.
	Now   func() time.Time
	kind  string
	since time.Time
}

// Bear returns an error when the trouble has lasted longer than its grace.
// Trouble that went away, or became another, starts its grace anew.
func (p *Patience) Bear(t Trouble) error {
	if t.Kind != p.kind {
		p.kind, p.since = t.Kind, p.Now()
	}
	if t.Kind == "" || t.Grace == Forever || p.Now().Sub(p.since) < t.Grace {
		return nil
	}
	if t.Code == step.ExitUser {
		return step.UserError("%s", t.Text)
	}
	return step.InfraError("%s", t.Text)
}
