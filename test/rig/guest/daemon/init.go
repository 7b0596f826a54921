package daemon

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	daemonPath = "/usr/local/sbin/guestd"
	endTimeout = 2 * time.Second
)

// runInit is process 1: it runs the daemon, collects orphans, and takes
// everything down when the daemon ends. Its status is the daemon's.
func runInit() int {
	hold()
	if err := unix.Sethostname([]byte("crc")); err != nil {
		fmt.Fprintln(os.Stderr, "init: set the host name:", err)
	}
	power := make(chan os.Signal, 1)
	signal.Notify(power, syscall.SIGTERM)
	daemon, err := os.StartProcess(daemonPath, []string{"guestd"}, &os.ProcAttr{
		Dir: "/", Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "init: start the daemon:", err)
		return 1
	}
	go func() {
		for range power {
			_ = daemon.Signal(syscall.SIGTERM)
		}
	}()
	status := reapUntil(daemon.Pid)
	_ = syscall.Kill(-1, syscall.SIGTERM)
	reapAll(time.Now().Add(endTimeout))
	return status
}

// hold keeps the open disk of the machine away from children.
func hold() {
	for fd := 3; fd < 16; fd++ {
		unix.CloseOnExec(fd)
	}
}

func reapUntil(pid int) int {
	for {
		var status syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &status, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return 1
		}
		if ended == pid {
			return status.ExitStatus()
		}
	}
}

// reapAll waits for the rest, which the kernel kills when process 1 ends.
func reapAll(deadline time.Time) {
	for time.Now().Before(deadline) {
		ended, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err == syscall.ECHILD {
			return
		}
		if ended == 0 {
			time.Sleep(10 * time.Millisecond)
		}
	}
}
