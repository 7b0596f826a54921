package loop

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestRunTriesAgainAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		passes := 0
		Run(ctx, NewChanges(), func(context.Context) error {
			if passes++; passes < 3 {
				return errors.New("not yet")
			}
			cancel()
			return nil
		})
		if passes != 3 {
			t.Errorf("got %d passes, want 3", passes)
		}
	})
}

func TestManyLaterWakeUpsAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		changes, passes := NewChanges(), 0
		Run(ctx, changes, func(context.Context) error {
			passes++
			for range 5 {
				changes.NotifyAfter(2 * time.Second)
			}
			return nil
		})
		if passes != 5 {
			t.Errorf("got %d passes in nine seconds, want one at once and one every two", passes)
		}
	})
}
