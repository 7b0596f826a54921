package machine

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	watchInterval = 50 * time.Millisecond
	dialTimeout   = 10 * time.Second
	listening     = "0A"
)

var ports = []int{22, 80, 443, 6443}

// forward keeps an outside listener for every port that the guest listens on,
// so that a closed port of the guest refuses connections outside too.
func (n *network) forward(pid int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		listeners := map[int]net.Listener{}
		defer func() {
			for _, l := range listeners {
				l.Close()
			}
		}()
		for ctx.Err() == nil {
			n.follow(ctx, openPorts(pid), listeners)
			select {
			case <-ctx.Done():
			case <-time.After(watchInterval):
			}
		}
	}()
	return func() { cancel(); <-done }
}

func (n *network) follow(ctx context.Context, open map[int]bool, listeners map[int]net.Listener) {
	for _, port := range ports {
		l := listeners[port]
		switch {
		case open[port] && l == nil:
			l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(n.config.Listen, strconv.Itoa(port)))
			if err != nil {
				n.config.printf("forward port %d: %v", port, err)
				continue
			}
			listeners[port] = l
			go n.accept(l, port)
		case !open[port] && l != nil:
			l.Close()
			delete(listeners, port)
		}
	}
}

func (n *network) accept(l net.Listener, port int) {
	for {
		outside, err := l.Accept()
		if err != nil {
			return
		}
		go n.serve(outside, port)
	}
}

func (n *network) serve(outside net.Conn, port int) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	inside, err := n.dial(ctx, port)
	if err != nil {
		if tcp, ok := outside.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		outside.Close()
		return
	}
	forget := n.track(outside, inside)
	defer forget()
	join(outside, inside)
}

// join copies both ways and passes on each side's end.
func join(a, b net.Conn) {
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		go func() {
			_, err := io.Copy(way[0], way[1])
			if tcp, ok := way[0].(*net.TCPConn); ok && err == nil {
				_ = tcp.CloseWrite()
			} else {
				a.Close()
				b.Close()
			}
			done <- struct{}{}
		}()
	}
	<-done
	<-done
	a.Close()
	b.Close()
}

// openPorts reads which ports the guest listens on at its outside address.
func openPorts(pid int) map[int]bool {
	open := map[int]bool{}
	for _, name := range []string{"tcp", "tcp6"} {
		f, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, name))
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if port, ok := listeningPort(lines.Text()); ok {
				open[port] = true
			}
		}
		f.Close()
	}
	return open
}

// listeningPort understands a line of /proc/net/tcp: slot, local, remote, state.
func listeningPort(line string) (int, bool) {
	words := strings.Fields(line)
	if len(words) < 4 || words[3] != listening {
		return 0, false
	}
	address, port, _ := strings.Cut(words[1], ":")
	everywhere := strings.Trim(address, "0") == ""
	if !everywhere && !strings.HasSuffix(address, "0202000A") {
		return 0, false
	}
	n, err := strconv.ParseUint(port, 16, 16)
	return int(n), err == nil
}
