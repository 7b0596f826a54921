package guest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"opdev.io/guestcluster/test/rig/guest/disk"
	"opdev.io/guestcluster/test/rig/guest/faults"
)

const (
	startTimeout = 60 * time.Second
	stopTimeout  = 45 * time.Second
)

// Options say which guest to start.
type Options struct {
	// Disk is a raw image that the guest changes in place.
	Disk string
	// Name is only for messages.
	Name string
	// Faults of this start, besides those in the disk (README.md).
	Faults []string
	// Address to listen on; empty is a free address of 127.0.0.0/8.
	Address string
}

// Guest is a running guest.
type Guest struct {
	// Address answers on ports 22, 80, 443 and 6443 while the guest does.
	Address string

	name    string
	disk    string
	cmd     *exec.Cmd
	console *console
	done    chan struct{}
	err     error
}

// Start runs a guest and returns when its kernel would have started: sshd
// answers a little later. It needs root. The guest ends with this process.
func Start(ctx context.Context, options Options) (*Guest, error) {
	if _, err := faults.Parse(options.Faults); err != nil {
		return nil, err
	}
	launcher, err := Launcher(ctx, "")
	if err != nil {
		return nil, err
	}
	if options.Name == "" {
		options.Name = "guest"
	}
	if options.Address == "" {
		if options.Address, err = freeAddress(ctx); err != nil {
			return nil, err
		}
	}
	g := &Guest{Address: options.Address, name: options.Name, disk: options.Disk, console: &console{}, done: make(chan struct{})}
	g.cmd = exec.Command(launcher, "--disk="+options.Disk, "--name="+options.Name,
		"--faults="+strings.Join(options.Faults, ","), "--listen="+options.Address)
	g.cmd.Stdout, g.cmd.Stderr = g.console, g.console
	g.cmd.WaitDelay = time.Second
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go g.own(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start the launcher: %w", err)
	}
	if err := g.waitBoots(ctx, 1); err != nil {
		return nil, errors.Join(err, g.Stop())
	}
	return g, nil
}

// own keeps its thread until the end: the kernel sends the parent-death signal
// when the starting thread exits, not the process.
func (g *Guest) own(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := g.cmd.Start()
	started <- err
	if err == nil {
		g.err = g.cmd.Wait()
	}
	close(g.done)
}

// Reboot is the reset button: it kills everything and boots the same disk. It
// returns when the boot has begun.
func (g *Guest) Reboot(ctx context.Context) error {
	boots := g.boots()
	if err := g.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		return fmt.Errorf("reset the guest: %w", err)
	}
	return g.waitBoots(ctx, boots+1)
}

// Stop pulls the plug and returns when the disk is free again.
func (g *Guest) Stop() error {
	return g.finish(syscall.SIGKILL)
}

// PowerOff presses the power button and returns when the disk is free again.
func (g *Guest) PowerOff() error {
	return g.finish(syscall.SIGTERM)
}

func (g *Guest) finish(signal syscall.Signal) error {
	_ = g.cmd.Process.Signal(signal)
	select {
	case <-g.done:
	case <-time.After(stopTimeout):
		_ = g.cmd.Process.Kill()
		<-g.done
	}
	return disk.WaitFree(g.disk, stopTimeout)
}

// Done is closed when the guest has ended.
func (g *Guest) Done() <-chan struct{} { return g.done }

// Console is what the guest printed so far, bounded to the last 64 KiB.
func (g *Guest) Console() string { return g.console.String() }

func (g *Guest) boots() int { return g.console.count(" machine " + g.name + ": boot ") }

func (g *Guest) waitBoots(ctx context.Context, wanted int) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for g.boots() < wanted {
		select {
		case <-g.done:
			return fmt.Errorf("start the guest: the launcher ended: %w\n%s", g.err, g.Console())
		case <-ctx.Done():
			return fmt.Errorf("start the guest: %w\n%s", ctx.Err(), g.Console())
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// freeAddress finds a loopback address of which no port is taken: the whole of
// 127.0.0.0/8 is local without any setup.
func freeAddress(ctx context.Context) (string, error) {
	for range 20 {
		address := fmt.Sprintf("127.%d.%d.%d", 64+rand.IntN(128), rand.IntN(256), 1+rand.IntN(254))
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", address+":6443")
		if err == nil {
			return address, l.Close()
		}
	}
	return "", errors.New("find a free address: none of twenty in 127.0.0.0/8 is")
}
