package step

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// ErrAgain asks Retry to try again without a word: nothing went wrong.
var ErrAgain = errors.New("try again")

// calm is how long a try must last for the next failure to count as the first.
const calm = 15 * time.Second

// stopped is what a step says that a signal ended.
const stopped = "interrupted by a signal"

// Backoff is the pause between tries at an API: from half a second to ten.
func Backoff() wait.Backoff {
	return wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 6, Cap: 10 * time.Second}
}

// Retry calls do until it succeeds, fails with a classified error, or ctx
// ends. An error is reported on progress when its text changes.
func Retry(ctx context.Context, pause wait.Backoff, progress io.Writer, do func(context.Context) error) error {
	var last error
	next, said := pause, ""
	for {
		began := time.Now()
		err := do(ctx)
		if err == nil || Final(err) {
			return err
		}
		if ctx.Err() != nil {
			return Interrupted(ctx, last)
		}
		if !errors.Is(err, ErrAgain) {
			last = err
			if said != err.Error() {
				said = err.Error()
				fmt.Fprintf(progress, "%s; trying again\n", said)
			}
		}
		if time.Since(began) > calm {
			next = pause
		}
		if !Pause(ctx, next.Step()) {
			return Interrupted(ctx, last)
		}
	}
}

// Interrupted classifies the end of ctx; last is what was wrong before, if anything.
func Interrupted(ctx context.Context, last error) error {
	after := ""
	if last != nil {
		after = "; before that: " + last.Error()
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return TimeoutError("deadline reached%s", after)
	}
	return InterruptedError("%s%s", stopped, after)
}

// interruption is err as the signal that ended ctx makes it: what else fails
// then, a request or a connection, fails because of it. A mistake of the user
// and a deadline that is over stay what they are.
func interruption(ctx context.Context, err error) error {
	if !errors.Is(ctx.Err(), context.Canceled) || ExitCode(err) != ExitInfra {
		return err
	}
	return InterruptedError(stopped+": %w", err)
}

// Pause waits for d; it is false when ctx ended first.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
