package confine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrDown tells that the rig does not run.
var ErrDown = errors.New("the rig is down: run make rig-up")

// Dial connects to an address inside the rig from a process of the machine.
// The address must be numeric.
func (s State) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	results := make(chan result, 1)
	go func() {
		// The thread keeps its namespace and so ends with the goroutine.
		runtime.LockOSThread()
		if err := s.enterNetwork(); err != nil {
			results <- result{err: err}
			return
		}
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		results <- result{conn, err}
	}()
	r := <-results
	return r.conn, r.err
}

// Exec replaces this process by a command in the rig's network, with a mount
// namespace of its own in which names resolve as in a pod.
func (s State) Exec(argv, env []string) error {
	runtime.LockOSThread()
	if err := s.enterNetwork(); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	if err := mountAll([]mount{
		{"none", "/", "", syscall.MS_REC | syscall.MS_PRIVATE},
		{s.Path("resolv.conf"), "/etc/resolv.conf", "", syscall.MS_BIND},
	}); err != nil {
		return err
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return fmt.Errorf("find the command: %w", err)
	}
	return syscall.Exec(path, argv, env)
}

func (s State) enterNetwork() error {
	pid, running := s.Pid()
	if !running {
		return ErrDown
	}
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return fmt.Errorf("open the rig's network namespace: %w", err)
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the rig's network namespace: %w (this needs root)", err)
	}
	return nil
}
