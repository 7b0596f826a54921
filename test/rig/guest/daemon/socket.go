package daemon

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	socketPath  = "/run/systemd/private"
	callTimeout = 3 * time.Minute
)

// reply is what a command prints and its exit status.
type reply struct {
	Stdout, Stderr string
	Status         int
}

func failed(status int, format string, args ...any) reply {
	return reply{Stderr: fmt.Sprintf(format, args...) + "\n", Status: status}
}

// askDaemon is the caller's side of systemctl, nmcli and the like.
func askDaemon(argv []string) int {
	conn, err := net.DialTimeout("unix", socketPath, time.Second)
	if err != nil {
		fmt.Fprintln(os.Stderr, "Failed to connect to bus:", err)
		return 1
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(callTimeout))
	var answer reply
	if err := json.NewEncoder(conn).Encode(argv); err != nil {
		fmt.Fprintln(os.Stderr, "Failed to send the request:", err)
		return 1
	}
	if err := json.NewDecoder(conn).Decode(&answer); err != nil {
		fmt.Fprintln(os.Stderr, "Failed to read the reply:", err)
		return 1
	}
	fmt.Fprint(os.Stdout, answer.Stdout)
	fmt.Fprint(os.Stderr, answer.Stderr)
	return answer.Status
}

func (d *daemon) serve() error {
	l, err := net.Listen("unix", socketPath)
	if err != nil {
		return fmt.Errorf("listen for commands: %w", err)
	}
	if err := os.Chmod(socketPath, 0o666); err != nil {
		return err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go d.answer(conn.(*net.UnixConn))
		}
	}()
	return nil
}

func (d *daemon) answer(conn *net.UnixConn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(callTimeout))
	var argv []string
	if err := json.NewDecoder(conn).Decode(&argv); err != nil || len(argv) == 0 {
		return
	}
	_ = json.NewEncoder(conn).Encode(d.command(isRoot(conn), argv))
}

func (d *daemon) command(root bool, argv []string) reply {
	switch argv[0] {
	case "systemctl":
		return d.systemctl(root, argv[1:])
	case "nmcli":
		if !root && len(argv) > 2 && argv[1] != "-t" {
			return failed(1, "Error: Insufficient privileges")
		}
		return d.network.nmcli(argv[1:])
	case "reboot", "poweroff":
		return d.systemctl(root, argv[:1])
	case "shutdown":
		if len(argv) > 1 && argv[1] == "-r" {
			return d.systemctl(root, []string{"reboot"})
		}
		return d.systemctl(root, []string{"poweroff"})
	}
	return failed(1, "%s: unknown command", argv[0])
}

// isRoot asks the kernel who is at the other end.
func isRoot(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	root := false
	err = raw.Control(func(fd uintptr) {
		peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		root = err == nil && peer.Uid == 0
	})
	return err == nil && root
}
