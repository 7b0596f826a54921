package loop

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
)

// Changes wakes a loop; many changes wake it once.
type Changes struct {
	wake chan struct{}
	mu   sync.Mutex
	due  time.Time
}

// NewChanges returns changes that nothing has happened to yet.
func NewChanges() *Changes { return &Changes{wake: make(chan struct{}, 1)} }

// Notify wakes the loop.
func (c *Changes) Notify() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// NotifyAfter wakes the loop after the delay at the latest. An earlier wake-up
// that is due anyway stands for this one: the pass then asks again.
func (c *Changes) NotifyAfter(delay time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	at := now.Add(delay)
	if c.due.After(now) && !c.due.After(at) {
		return
	}
	c.due = at
	time.AfterFunc(delay, c.Notify)
}

// OnAdd, OnUpdate and OnDelete make Changes an informer's event handler.
func (c *Changes) OnAdd(any, bool)   { c.Notify() }
func (c *Changes) OnUpdate(any, any) { c.Notify() }
func (c *Changes) OnDelete(any)      { c.Notify() }

// Run makes a pass after every change, and again with growing delay after a
// failure, until the context ends.
func Run(ctx context.Context, changes *Changes, pass func(context.Context) error) {
	backoff := workqueue.NewTypedItemExponentialFailureRateLimiter[string](200*time.Millisecond, 5*time.Second)
	for {
		if err := pass(ctx); err != nil {
			fmt.Println(time.Now().Format(time.TimeOnly), err)
			changes.NotifyAfter(backoff.When(""))
		} else {
			backoff.Forget("")
		}
		select {
		case <-ctx.Done():
			return
		case <-changes.wake:
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
