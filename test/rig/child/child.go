package child

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a running child.
type Process struct {
	// Name is the program's argv[0].
	Name string
	log  string
	cmd  *exec.Cmd
	done chan struct{}
}

// Start runs binary with args, the first of which is argv[0].
func Start(binary, log string, args []string) (*Process, error) {
	f, err := os.Create(log)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", args[0], err)
	}
	defer f.Close()
	p := &Process{Name: args[0], log: log, done: make(chan struct{}), cmd: &exec.Cmd{
		Path: binary, Args: args, Stdout: f, Stderr: f,
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true},
	}}
	started := make(chan error)
	go p.own(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	return p, nil
}

// own keeps its thread until the end: the kernel sends the parent-death signal
// when the starting thread exits, not the process.
func (p *Process) own(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait()
	}
	close(p.done)
}

// Ended says whether the child has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Kill ends the child at once.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// End asks the child to end, and kills it after a while.
func (p *Process) End(patience time.Duration) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return nil
	case <-time.After(patience):
		p.Kill()
		return fmt.Errorf("end %s: killed it after %s", p.Name, patience)
	}
}

// Tail is the end of the child's log.
func (p *Process) Tail() []byte {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	data = bytes.TrimSpace(data)
	return data[max(0, len(data)-2000):]
}

// FreePorts finds n ports of 127.0.0.1 that nobody listens on.
func FreePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
