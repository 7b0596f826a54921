package loop

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
)

// Changes wakes a loop; many changes wake it once.
type Changes chan struct{}

// NewChanges returns changes that nothing has happened to yet.
func NewChanges() Changes { return make(Changes, 1) }

// Notify wakes the loop.
func (c Changes) Notify() {
	select {
	case c <- struct{}{}:
	default:
	}
}

// NotifyAfter wakes the loop later.
func (c Changes) NotifyAfter(delay time.Duration) { time.AfterFunc(delay, c.Notify) }

// OnAdd, OnUpdate and OnDelete make Changes an informer's event handler.
func (c Changes) OnAdd(any, bool)   { c.Notify() }
func (c Changes) OnUpdate(any, any) { c.Notify() }
func (c Changes) OnDelete(any)      { c.Notify() }

// Run makes a pass after every change, and again with growing delay after a
// failure, until the context ends.
func Run(ctx context.Context, wake Changes, pass func(context.Context) error) {
	backoff := workqueue.NewTypedItemExponentialFailureRateLimiter[string](200*time.Millisecond, 5*time.Second)
	for {
		if err := pass(ctx); err != nil {
			fmt.Println(time.Now().Format(time.TimeOnly), err)
			wake.NotifyAfter(backoff.When(""))
		} else {
			backoff.Forget("")
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
		}
	}
}

// Gone drops the error of an object that was deleted meanwhile.
func Gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Outdated drops the error of a write that an informer is about to explain:
// its next event wakes the loop with the newer object.
func Outdated(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return nil
	}
	return Gone(err)
}
