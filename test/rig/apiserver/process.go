package apiserver

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
)

// process is a program that dies with this one.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{}
}

func (s *Server) run(binary string, args []string) error {
	p := &process{name: args[0], log: filepath.Join(s.Dir, args[0]+".log"), done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", p.name, err)
	}
	defer log.Close()
	p.cmd = &exec.Cmd{
		Path: binary, Args: args, Stdout: log, Stderr: log,
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true},
	}
	started := make(chan error)
	go p.own(started)
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	s.processes = append(s.processes, p)
	return nil
}

// own keeps its thread until the end: the kernel sends the parent-death signal
// when the starting thread exits, not the process.
func (p *process) own(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait()
	}
	close(p.done)
}

func (p *process) stop() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (s *Server) waitReady(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(s.Config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		if err == nil {
			return nil
		}
		for _, p := range s.processes {
			select {
			case <-p.done:
				return fmt.Errorf("%s ended: %s", p.name, tail(p.log))
			default:
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the API server: %w (last answer: %w; logs in %s)", ctx.Err(), err, s.Dir)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func tail(file string) []byte {
	data, err := os.ReadFile(file)
	if err != nil {
		return []byte(err.Error())
	}
	data = bytes.TrimSpace(data)
	return data[max(0, len(data)-2000):]
}
