package probe

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

const (
	defaultWorkers = 8
	queueLength    = 4096
	probeTimeout   = time.Minute
)

// Options of a Pool.
type Options struct {
	// Clock is required.
	Clock clock.Clock
	// Dial replaces the normal resolver and dialer; for tests.
	Dial DialFunc
	// Workers is how many guests are probed at one time; default 8.
	Workers int
}

type job struct {
	key    types.NamespacedName
	target Target
}

// Pool is a Prober with a bounded number of workers.
type Pool struct {
	options Options
	notify  func(types.NamespacedName)
	jobs    chan job

	mu      sync.Mutex
	pending map[types.NamespacedName]bool
	results map[types.NamespacedName]Result
}

var _ Prober = (*Pool)(nil)

// Start runs a Pool until ctx ends; notify is called after every probe.
func Start(ctx context.Context, o Options, notify func(types.NamespacedName)) *Pool {
	if o.Workers <= 0 {
		o.Workers = defaultWorkers
	}
	p := &Pool{
		options: o, notify: notify, jobs: make(chan job, queueLength),
		pending: map[types.NamespacedName]bool{}, results: map[types.NamespacedName]Result{},
	}
	for range o.Workers {
		go p.work(ctx)
	}
	return p
}

// Request implements Prober. With a full queue it does nothing: the instance
// asks again at its next reconcile.
func (p *Pool) Request(key types.NamespacedName, target Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending[key] {
		return
	}
	select {
	case p.jobs <- job{key, target}:
		p.pending[key] = true
	default:
	}
}

// Result implements Prober. Of another UID nothing is told: an instance must
// not become Ready by what the last one of its name answered.
func (p *Pool) Result(key types.NamespacedName, uid types.UID) (Result, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.results[key]; ok && r.UID == uid {
		return r, true
	}
	return Result{}, false
}

// Forget implements Prober.
func (p *Pool) Forget(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.results, key)
}

func (p *Pool) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-p.jobs:
			bounded, cancel := context.WithTimeout(ctx, probeTimeout)
			err := p.probe(bounded, j.target)
			cancel()
			p.record(j, err)
			p.notify(j.key)
		}
	}
}

func (p *Pool) record(j job, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pending, j.key)
	last := p.results[j.key]
	if last.UID != j.target.UID {
		last = Result{}
	}
	misses := last.Misses
	switch {
	case err == nil:
		misses = 0
	case !errors.Is(err, errUnknown):
		misses++
	}
	p.results[j.key] = Result{UID: j.target.UID, At: p.options.Clock.Now(), Full: j.target.Full, Err: err, Misses: misses}
}
