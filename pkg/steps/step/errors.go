package step

import (
	"context"
	"errors"
	"fmt"
)

// Exit codes by class of error. The controller reads them to tell whether
// trying again can help.
const (
	// ExitUser is for what only the user can mend.
	ExitUser = 10
	// ExitInfra is for what the infrastructure did.
	ExitInfra = 11
	// ExitTimeout is for what took too long.
	ExitTimeout = 12
	// ExitInterrupted is for a step that was told to stop: its pod is being
	// deleted or evicted. Nothing is at fault, and another attempt goes on.
	ExitInterrupted = 13
)

// Error is a classified error: it is final, trying again cannot help.
type Error struct {
	// Code is the exit code of its class.
	Code int
	// Err is what went wrong.
	Err error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// UserError is an error that only the user can mend.
func UserError(format string, args ...any) error { return classified(ExitUser, format, args) }

// InfraError is an error of the infrastructure.
func InfraError(format string, args ...any) error { return classified(ExitInfra, format, args) }

// TimeoutError says that something took too long.
func TimeoutError(format string, args ...any) error { return classified(ExitTimeout, format, args) }

// InterruptedError says that the step was told to stop before it was done.
func InterruptedError(format string, args ...any) error {
	return classified(ExitInterrupted, format, args)
}

func classified(code int, format string, args []any) error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...)}
}

// Final says whether trying again cannot help.
func Final(err error) bool {
	var e *Error
	return errors.As(err, &e)
}

// ExitCode is the process's exit code for an error.
func ExitCode(err error) int {
	var e *Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.Code
	case errors.Is(err, context.DeadlineExceeded):
		return ExitTimeout
	default:
		return ExitInfra
	}
}
