package daemon

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"opdev.io/guestcluster/test/rig/guest/faults"
)

const dropSeconds = 30

// hangSSH accepts and says nothing.
func (d *daemon) hangSSH(context.Context) error {
	l, err := net.Listen("tcp", ":22")
	if err != nil {
		return fmt.Errorf("listen in sshd's place: %w", err)
	}
	go func() {
		// Unread connections stay open while something refers to them.
		kept := map[net.Conn]bool{}
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			kept[conn] = true
		}
	}()
	return nil
}

// dropSessions kills each session whose first command has ended.
func (d *daemon) dropSessions() {
	end := time.Now().Add(time.Duration(d.faults.Number(faults.SSHDrop, dropSeconds)) * time.Second)
	busy := map[int]bool{}
	for time.Now().Before(end) && d.ctx.Err() == nil {
		for pid, children := range sessions() {
			if children > 0 {
				busy[pid] = true
			} else if busy[pid] {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// sessions maps each sshd process of core to the number of its children.
func sessions() map[int]int {
	found, parents := map[int]int{}, map[int]int{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		stat, err := os.ReadFile(dir + "/stat")
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		if words := strings.Fields(rest); len(words) > 1 {
			parent, _ := strconv.Atoi(words[1])
			parents[parent]++
		}
		if line, _ := os.ReadFile(dir + "/cmdline"); strings.HasPrefix(string(line), "sshd: core@") {
			found[pid] = 0
		}
	}
	for pid := range found {
		found[pid] = parents[pid]
	}
	return found
}
