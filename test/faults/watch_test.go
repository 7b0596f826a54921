package faults_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"opdev.io/guestcluster/test/internal/broker"
)

// watched are the kinds whose events the controllers need.
var watched = []string{"clusterpools", "clusterinstances", "clusterleases", "pipelineruns"}

// blindFor is how long the other controllers' watches run ahead: until nobody
// has written for this long.
const blindFor = 400 * time.Millisecond

// sampledWatch is every how many-th watch point the fast part tries.
const sampledWatch = 31

// TestEveryEventIsLate hides the events of one kind, from each of them on: held
// back, never told, or untold to a process that starts in the past. The other
// kinds' events overtake them.
func TestEveryEventIsLate(t *testing.T) {
	t.Parallel()
	for n, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for k, resource := range watched {
				dry := broker.NewBlindfold(resource, 0, broker.Stale)
				s.hide(t, dry)
				events := dry.Events()
				t.Logf("%s: %d events", resource, events)
				for from := 1; from <= events; from++ {
					for m, how := range []broker.Blindness{broker.Stale, broker.Missed, broker.Past} {
						if !whole() && (from*3+m+k+n)%sampledWatch != 0 {
							continue
						}
						t.Run(fmt.Sprintf("%s %s from %d", how, resource, from), func(t *testing.T) {
							t.Parallel()
							counted.watches.Add(1)
							s.hide(t, broker.NewBlindfold(resource, from, how))
						})
					}
				}
			}
		})
	}
}

// hide plays a scenario with a blindfold.
func (s scenario) hide(t *testing.T, blind *broker.Blindfold) {
	w := newWorld(t)
	defer blind.Release()
	first := w.start()
	s.prepare(w)
	first.Stop()
	s.begin(w)
	set := w.start(blind.Wrap)
	end := func(ctx context.Context) string {
		if lacks := s.missing(ctx, w); lacks != "" {
			return lacks
		}
		return w.settled(ctx)
	}
	w.eventually("the end or the blindness", func(ctx context.Context) string {
		select {
		case <-blind.Begun():
			return ""
		default:
			return end(ctx)
		}
	})
	if blind.How == broker.Past {
		set.Stop()
		w.start(blind.Reborn)
	}
	if blind.From > 0 {
		w.idle(blindFor)
	}
	blind.Release()
	w.eventually("the end after the blindness", end)
	w.end(briefly)
}
