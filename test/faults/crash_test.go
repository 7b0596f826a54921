package faults_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"opdev.io/guestcluster/test/internal/broker"
)

// briefly is how long nobody may write after each of many short plays.
const briefly = time.Second

// modes are what can happen to one call.
var modes = []struct {
	how     broker.Failure
	survive bool
}{
	{broker.Unsent, false}, {broker.Unanswered, false},
	{broker.Overtaken, true}, {broker.Overtaken, false},
	{broker.Refused, true}, {broker.Refused, false},
}

// sampled is every how many-th point the fast part tries.
const sampled = 47

// TestEveryCallFails lets every mutating call of every scenario fail in every
// way, with and without a restart after it. All must come to the same end.
func TestEveryCallFails(t *testing.T) {
	t.Parallel()
	for n, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			calls := s.play(t, broker.NewFailure(0, broker.Unsent, false))
			t.Logf("%d calls, %d points", calls, calls*len(modes))
			// A failure may add or join writes: look beyond the count.
			for at := 1; at <= calls+1; at++ {
				for m, mode := range modes {
					if !whole() && (at*len(modes)+m+n)%sampled != 0 {
						continue
					}
					failure := broker.NewFailure(at, mode.how, mode.survive)
					t.Run(fmt.Sprint(failure), func(t *testing.T) {
						t.Parallel()
						counted.crashes.Add(1)
						s.play(t, failure)
					})
				}
			}
		})
	}
}

// play returns how many mutating calls there were.
func (s scenario) play(t *testing.T, failure *broker.Crash) int {
	w := newWorld(t)
	first := w.start()
	s.prepare(w)
	first.Stop()
	s.begin(w)
	faulty := w.start(failure.Wrap)
	end := func(ctx context.Context) string {
		if lacks := s.missing(ctx, w); lacks != "" {
			return lacks
		}
		return w.settled(ctx)
	}
	w.eventually("the end or the failure", func(ctx context.Context) string {
		select {
		case <-failure.Dead():
			return ""
		default:
			return end(ctx)
		}
	})
	if call := failure.Call(); call != "" {
		t.Logf("%s: %s", failure, call)
	}
	if !failure.Survive {
		faulty.Stop()
		w.start()
	}
	w.eventually("the end after "+failure.Call(), end)
	calls := failure.Calls()
	w.end(briefly)
	return calls
}
