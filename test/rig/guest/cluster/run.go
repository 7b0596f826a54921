package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"opdev.io/guestcluster/test/rig/guest/faults"
)

const (
	tick     = time.Second
	localURL = "https://localhost:6443"
)

// Cluster is everything that a started kubelet brings to life.
type Cluster struct {
	root   Root
	faults faults.Set
	api    api
	kas    *pod

	mu    sync.Mutex
	log   io.Writer
	state state
}

// state is what the loops know of each other.
type state struct {
	readyAt   time.Time // the node became Ready
	rolling   bool      // the API server is getting a new revision
	rolledAt  time.Time
	loginAt   time.Time // the identity providers changed
	login     string
	apiServes bool
}

// New prepares the cluster in the guest's own file system.
func New(set faults.Set) (*Cluster, error) {
	c := &Cluster{root: "/", faults: set, log: os.Stderr}
	var err error
	c.api, err = newAPI(c.root.Config(localURL))
	return c, err
}

// RunStaticPods starts etcd, API server and controller manager, and the
// operators with them. It returns when the context ends.
func (c *Cluster) RunStaticPods(ctx context.Context) {
	if c.faults.Has(faults.APINever) {
		c.logf("static pods: etcd does not come up")
		<-ctx.Done()
		return
	}
	var all sync.WaitGroup
	etcd := &pod{binary: "/usr/bin/etcd", log: podLog("etcd"), logf: c.logf, args: func() []string { return c.root.EtcdArgs(DefaultPorts) }}
	c.kas = &pod{binary: "/usr/bin/kube", log: podLog("kube-apiserver"), logf: c.logf, args: c.apiServerArgs}
	kcm := &pod{binary: "/usr/bin/kube", log: podLog("kube-controller-manager"), logf: c.logf, args: c.root.ControllerManagerArgs}
	all.Go(func() { etcd.run(ctx) })
	all.Go(func() { c.kas.run(ctx) })
	all.Go(func() {
		if c.waitServing(ctx) {
			kcm.run(ctx)
		}
	})
	for _, loop := range []func(context.Context) error{
		c.syncTrust, c.syncNamedCertificates, c.syncMachineConfig(), c.syncOperators, c.syncVersion(), c.syncAggregator(),
	} {
		all.Go(func() { c.loop(ctx, loop) })
	}
	all.Wait()
}

// loop repeats a function; errors only mean that it did not work this time.
func (c *Cluster) loop(ctx context.Context, do func(context.Context) error) {
	if !c.waitServing(ctx) {
		return
	}
	last := ""
	for ok := true; ok; ok = pause(ctx, tick) {
		message := ""
		if err := do(ctx); err != nil {
			message = err.Error()
		}
		if message != "" && message != last && ctx.Err() == nil {
			c.logf("operators: %s", message)
		}
		last = message
	}
}

// waitServing waits for the API server to be ready.
func (c *Cluster) waitServing(ctx context.Context) bool {
	for {
		if ready(ctx, c.root, localURL) {
			c.set(func(s *state) { s.apiServes = true })
			return true
		}
		if !pause(ctx, 200*time.Millisecond) {
			return false
		}
	}
}

// LogTo says where the loops tell what they do.
func (c *Cluster) LogTo(log io.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = log
}

func (c *Cluster) logf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.log, "%s %s\n", time.Now().UTC().Format("15:04:05.000"), fmt.Sprintf(format, args...))
}

func (c *Cluster) set(change func(*state)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.state)
}

func (c *Cluster) now() state {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

func podLog(name string) string { return filepath.Join("/var/log/pods", name, "current.log") }
