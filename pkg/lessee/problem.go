package lessee

import (
	"fmt"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// Class tells who can mend a problem, and so whether trying again can help.
type Class int

const (
	// User: only the author of the run can mend it.
	User Class = iota
	// Infra: the infrastructure did it.
	Infra
	// Timeout: it took too long.
	Timeout
)

// Problem is why a run does not get or give back its cluster.
type Problem struct {
	Class  Class
	Reason v1alpha1.Reason
	Text   string
}

func (p *Problem) Error() string { return p.Text }

// Invalid is a problem with what the run asks for.
func Invalid(format string, args ...any) *Problem {
	return &Problem{User, v1alpha1.ReasonInvalidRequest, fmt.Sprintf(format, args...)}
}

func conflict(format string, args ...any) *Problem {
	return &Problem{User, v1alpha1.ReasonLeaseConflict, fmt.Sprintf(format, args...)}
}
