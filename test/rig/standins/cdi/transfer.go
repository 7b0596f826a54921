package cdi

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/test/rig/standins/loop"
)

const (
	// firstPause and longestPause are short where the kubelet's are 10 s and
	// 5 min, so that a failing import shows several restarts in a test.
	firstPause   = time.Second
	longestPause = 10 * time.Second
	tick         = 500 * time.Millisecond
)

type transferPhase int

const (
	idle transferPhase = iota
	moving
	failed
	done
)

// transferState is what a DataVolume's status tells of a transfer.
type transferState struct {
	state    transferPhase
	percent  float64
	restarts int64
	message  string
	fatal    bool
}

// fatalError is one that CDI does not try again.
type fatalError struct{ error }

// transfers are the importer pods: one goroutine per DataVolume that is being
// filled. They do not survive the process; the next decision starts them again.
type transfers struct {
	changes *loop.Changes
	mu      sync.Mutex
	running map[types.UID]*transfer
}

type transfer struct {
	transferState
	cancel context.CancelFunc
	told   time.Time
}

// attempt fills a volume and reports the share that is done.
type attempt func(ctx context.Context, report func(done, total int64)) error

func newTransfers(changes *loop.Changes) *transfers {
	return &transfers{changes: changes, running: map[types.UID]*transfer{}}
}

func (t *transfers) state(uid types.UID) transferState {
	t.mu.Lock()
	defer t.mu.Unlock()
	if found := t.running[uid]; found != nil {
		return found.transferState
	}
	return transferState{}
}

func (t *transfers) start(ctx context.Context, uid types.UID, restarts int64, work attempt) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running[uid] != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	t.running[uid] = &transfer{transferState: transferState{state: moving, restarts: restarts}, cancel: cancel}
	go t.run(ctx, uid, work)
}

// forget ends the transfers of all that keep does not name.
func (t *transfers) forget(keep map[types.UID]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for uid, running := range t.running {
		if !keep[uid] {
			running.cancel()
			delete(t.running, uid)
		}
	}
}

// run tries until it works, as a pod with restart policy OnFailure does.
func (t *transfers) run(ctx context.Context, uid types.UID, work attempt) {
	pause := firstPause
	for {
		err := work(ctx, func(done, total int64) { t.report(uid, done, total) })
		if ctx.Err() != nil {
			return
		}
		var fatal fatalError
		t.update(uid, func(s *transferState) {
			if s.state = done; err != nil {
				s.state, s.message, s.fatal = failed, simplify(err.Error()), errors.As(err, &fatal)
				s.restarts++
				fmt.Println(time.Now().Format(time.TimeOnly), "fill volume:", err)
			}
		})
		if err == nil || fatal.error != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
		t.update(uid, func(s *transferState) { s.state, s.percent = moving, 0 })
	}
}

func (t *transfers) report(uid types.UID, done, total int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := t.running[uid]
	if found == nil || total <= 0 {
		return
	}
	found.percent = 100 * float64(done) / float64(total)
	if time.Since(found.told) > tick {
		found.told = time.Now()
		t.changes.Notify()
	}
}

func (t *transfers) update(uid types.UID, change func(*transferState)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if found := t.running[uid]; found != nil {
		change(&found.transferState)
	}
	t.changes.Notify()
}
