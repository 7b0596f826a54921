package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is the guest: the first process of a PID namespace, so that killing
// it ends all the others.
type process struct {
	cmd   *exec.Cmd
	ready *os.File // the first stage writes when its root is in place
	goOn  *os.File // and waits for this to boot
	ended chan error
}

func start(config Config, d *drives) (*process, error) {
	readyRead, readyWrite, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	goRead, goWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a pipe: %w", err), readyRead.Close(), readyWrite.Close())
	}
	p := &process{ready: readyRead, goOn: goWrite, ended: make(chan error, 1)}
	p.cmd = &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{"guest-boot"}, Env: environment(config, d), Dir: "/",
		Stdout: config.Console, Stderr: config.Console, ExtraFiles: []*os.File{readyWrite, goRead},
		WaitDelay: time.Second,
		SysProcAttr: &syscall.SysProcAttr{
			Setsid: true, Pdeathsig: syscall.SIGKILL,
			Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		},
	}
	started := make(chan error)
	go p.own(started)
	err = <-started
	// The guest's copies are the only ones now: their end is its end.
	err = errors.Join(err, readyWrite.Close(), goRead.Close())
	if err != nil {
		return nil, fmt.Errorf("start the guest: %w (this needs root)", errors.Join(err, readyRead.Close(), goWrite.Close()))
	}
	return p, p.waitStaged()
}

// own keeps its thread until the end: the kernel sends the parent-death signal
// when the starting thread exits, not the process.
func (p *process) own(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err == nil {
		p.ended <- p.cmd.Wait()
	}
}

// waitStaged returns when the root file system is in place, or has failed to.
func (p *process) waitStaged() error {
	defer p.ready.Close()
	word, err := io.ReadAll(p.ready)
	if err == nil && string(word) == "ready" {
		return nil
	}
	p.kill()
	return errors.New("mount the guest's disk: see the console")
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) proceed() error {
	_, err := p.goOn.Write([]byte("go"))
	return errors.Join(err, p.goOn.Close())
}

// kill is the hard way, and harmless when the guest has ended already.
func (p *process) kill() {
	if p.ended == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.ended
	p.ended = nil
}

func (p *process) wait(ctx context.Context, reset <-chan os.Signal) (again bool, err error) {
	select {
	case err := <-p.ended:
		p.ended = nil
		return p.outcome(err)
	case <-reset:
		p.kill()
		return true, nil
	case <-ctx.Done():
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		p.ended = nil
	case <-time.After(powerTimeout):
		p.kill()
	}
	return false, nil
}

func (p *process) outcome(err error) (again bool, _ error) {
	if err == nil || errors.Is(err, exec.ErrWaitDelay) {
		return false, nil
	}
	if p.cmd.ProcessState.ExitCode() == RebootStatus {
		return true, nil
	}
	return false, fmt.Errorf("the guest ended: %w", err)
}
