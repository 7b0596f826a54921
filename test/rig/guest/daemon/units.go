package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"opdev.io/guestcluster/test/rig/guest/faults"
)

const (
	unitDir  = "/usr/lib/systemd/system"
	wantsDir = "/etc/systemd/system/multi-user.target.wants"
	stopWait = 3 * time.Second
)

// unit is one service.
type unit struct {
	name        string
	description string
	start       func(ctx context.Context) error // returns when it is up
	stop        func()

	job    sync.Mutex // held while it starts: a second start waits and finds it up
	mu     sync.Mutex
	active string // inactive, activating, active or failed
	since  time.Time
}

// units are in the order of starting.
type units struct{ all []*unit }

// newUnits is the table of services. What this system lacks does not exist.
func newUnits(d *daemon) *units {
	u := &units{}
	add := func(name, description string, start func(context.Context) error, stop func()) {
		u.all = append(u.all, &unit{name: name, description: description, start: start, stop: stop, active: "inactive"})
	}
	nothing := func() {}
	add("NetworkManager.service", "Network Manager", d.network.start, nothing)
	if !d.faults.Has(faults.NoOVS) {
		add("ovs-configuration.service", "Configures OVS with proper host networking configuration", d.network.startOVS, nothing)
	}
	add("chronyd.service", "NTP client/server", func(context.Context) error { return nil }, nothing)
	dnsmasq := &program{args: []string{"/usr/sbin/dnsmasq", "--keep-in-foreground", "--log-facility=-"}, check: []string{"/usr/sbin/dnsmasq", "--test"}}
	u.addProgram("dnsmasq.service", "DNS caching server.", dnsmasq)
	switch {
	case d.faults.Has(faults.SSHRefuse):
	case d.faults.Has(faults.SSHHang):
		add("sshd.service", "OpenSSH server daemon", d.hangSSH, nothing)
	default:
		sshd := &program{args: []string{"/usr/sbin/sshd", "-D", "-e"}, check: []string{"/usr/sbin/sshd", "-t"}}
		u.addProgram("sshd.service", "OpenSSH server daemon", sshd)
		if d.faults.Has(faults.SSHDrop) {
			go d.dropSessions()
		}
	}
	var stopKubelet context.CancelFunc
	add("kubelet.service", "Kubernetes Kubelet", func(context.Context) (err error) {
		stopKubelet, err = d.startKubelet()
		return err
	}, func() {
		if stopKubelet != nil {
			stopKubelet()
		}
	})
	return u
}

func (u *units) find(name string) *unit {
	if filepath.Ext(name) == "" {
		name += ".service"
	}
	for _, one := range u.all {
		if one.name == name {
			return one
		}
	}
	return nil
}

func (u *units) start(one *unit) error {
	one.job.Lock()
	defer one.job.Unlock()
	if one.state() == "active" {
		return nil
	}
	one.set("activating")
	err := one.start(context.Background())
	if err != nil {
		one.set("failed")
		return err
	}
	one.set("active")
	return nil
}

func (u *units) stop(one *unit) {
	one.set("inactive")
	one.stop()
}

func (one *unit) state() string {
	one.mu.Lock()
	defer one.mu.Unlock()
	return one.active
}

func (one *unit) set(state string) {
	one.mu.Lock()
	defer one.mu.Unlock()
	one.active, one.since = state, time.Now()
}

func (one *unit) enabled() bool {
	_, err := os.Lstat(filepath.Join(wantsDir, one.name))
	return err == nil
}

func (one *unit) log() string { return "/var/log/units/" + one.name + ".log" }

// program is a unit that is one process.
type program struct {
	args  []string
	check []string

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{}
}

func (u *units) addProgram(name, description string, p *program) {
	one := &unit{name: name, description: description, active: "inactive", stop: p.stop}
	one.start = func(ctx context.Context) error { return p.start(ctx, one) }
	u.all = append(u.all, one)
}

func (p *program) start(ctx context.Context, one *unit) error {
	log, err := os.OpenFile(one.log(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the journal: %w", err)
	}
	defer log.Close()
	check := exec.CommandContext(ctx, p.check[0], p.check[1:]...)
	check.Stdout, check.Stderr = log, log
	if err := check.Run(); err != nil {
		return fmt.Errorf("check the configuration: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd = exec.Command(p.args[0], p.args[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.done = make(chan struct{})
	go p.watch(p.cmd, p.done, one)
	// What cannot listen ends at once.
	select {
	case <-p.done:
		return errors.New("ended at once: see the journal")
	case <-time.After(100 * time.Millisecond):
		return nil
	}
}

func (p *program) watch(cmd *exec.Cmd, done chan struct{}, one *unit) {
	_ = cmd.Wait()
	close(done)
	if one.state() == "active" {
		one.set("failed")
	}
}

func (p *program) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(stopWait):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	p.cmd = nil
}
