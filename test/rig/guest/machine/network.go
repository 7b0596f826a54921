package machine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	guestIP   = "10.0.2.2"
	gatewayIP = "10.0.2.1"
	guestNIC  = "enp1s0"

	ipTimeout = 10 * time.Second
)

// network is the gateway's side: a namespace of its own that reaches the guest
// and nothing else. Forwarding between it and the outside is done in Go.
type network struct {
	config    Config
	namespace *os.File
	boots     int

	mu   sync.Mutex
	live map[net.Conn]bool
}

func newNetwork(config Config) (*network, error) {
	n := &network{config: config, live: map[net.Conn]bool{}}
	made := make(chan error, 1)
	go func() {
		// The thread ends with the goroutine; the open file keeps the namespace.
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			n.namespace, err = os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
		}
		made <- err
	}()
	if err := <-made; err != nil {
		return nil, fmt.Errorf("make a network namespace: %w (this needs root)", err)
	}
	return n, n.serveNames()
}

func (n *network) close() { n.namespace.Close() }

// inside runs do on a thread in the gateway's namespace.
func (n *network) inside(do func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if err := unix.Setns(int(n.namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			result <- fmt.Errorf("enter the gateway's network: %w", err)
			return
		}
		result <- do()
	}()
	return <-result
}

// connect plugs a new cable into the guest. The program ip is the guest's own:
// the machine may be a container without it.
func (n *network) connect(pid int) error {
	n.boots++
	cable := fmt.Sprintf("vnet%d", n.boots)
	commands := []string{
		"link set lo up",
		fmt.Sprintf("link add %s type veth peer name %s address 02:00:0a:00:02:02 netns %d", cable, guestNIC, pid),
		"addr add " + gatewayIP + "/24 dev " + cable,
		"link set " + cable + " address 02:00:0a:00:02:01 up",
	}
	if n.boots > 1 {
		old := fmt.Sprintf("vnet%d", n.boots-1)
		_ = n.ip(pid, "link del "+old)
	}
	n.dropStale()
	return n.ip(pid, commands...)
}

func (n *network) ip(pid int, commands ...string) error {
	return n.inside(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), ipTimeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, "/sbin/ip", "-batch", "-")
		cmd.Dir, cmd.Err = "/", nil
		cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: fmt.Sprintf("/proc/%d/root", pid)}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("set up the guest's network: %w: %s", err, out)
		}
		return nil
	})
}

// dial connects to the guest as the gateway does.
func (n *network) dial(ctx context.Context, port int) (conn net.Conn, err error) {
	err = n.inside(func() error {
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", fmt.Sprintf("%s:%d", guestIP, port))
		return err
	})
	return conn, err
}

// track remembers connections. After the guest's death they are silent, as
// through a dead machine, until the next boot refuses them.
func (n *network) track(conns ...net.Conn) (forget func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range conns {
		n.live[c] = true
	}
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, c := range conns {
			delete(n.live, c)
		}
	}
}

func (n *network) dropStale() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.live {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = errors.Join(c.Close())
	}
	clear(n.live)
}
