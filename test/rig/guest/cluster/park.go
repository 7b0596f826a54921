package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

const (
	parkTimeout = 3 * time.Minute
	endTimeout  = 20 * time.Second
)

// Content is what is put into the parked cluster beside what every one has.
type Content struct {
	CRDs    []map[string]any
	AdminCA string
	CoreKey string
}

// Park runs etcd and the API server once below root, fills them and ends them
// in order, so that the data directory is what an installation leaves.
func Park(ctx context.Context, root Root, kube, etcd, log string, content Content) (err error) {
	ctx, cancel := context.WithTimeout(ctx, parkTimeout)
	defer cancel()
	free, err := freePorts(3)
	if err != nil {
		return err
	}
	ports := Ports{API: free[0], Etcd: free[1], EtcdPeer: free[2]}
	store, err := run(etcd, log+"-etcd", root.EtcdArgs(ports))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.end()) }()
	server, err := run(kube, log+"-kube-apiserver", root.APIServerArgs(ports, "127.0.0.1", nil))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.end()) }()
	url := fmt.Sprintf("https://localhost:%d", ports.API)
	for !ready(ctx, root, url) {
		if !pause(ctx, 100*time.Millisecond) || store.ended() || server.ended() {
			return fmt.Errorf("wait for the API server: it or etcd ended, or time did (%v); logs: %s-*", ctx.Err(), log)
		}
	}
	client, err := newAPI(root.Config(url))
	if err != nil {
		return err
	}
	return fillCluster(ctx, client, content)
}

// once is a program that dies with this one.
type once struct {
	cmd  *exec.Cmd
	done chan struct{}
}

func run(binary, log string, args []string) (*once, error) {
	f, err := os.Create(log)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", args[0], err)
	}
	defer f.Close()
	o := &once{done: make(chan struct{}), cmd: &exec.Cmd{
		Path: binary, Args: args, Stdout: f, Stderr: f, Dir: filepath.Dir(log),
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true},
	}}
	started := make(chan error)
	go func() {
		// The kernel watches the starting thread, not the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := o.cmd.Start()
		started <- err
		if err == nil {
			_ = o.cmd.Wait()
		}
		close(o.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	return o, nil
}

func (o *once) ended() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

func (o *once) end() error {
	_ = o.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-o.done:
		return nil
	case <-time.After(endTimeout):
		_ = o.cmd.Process.Kill()
		<-o.done
		return fmt.Errorf("end %s: killed it after %s", o.cmd.Args[0], endTimeout)
	}
}

func freePorts(n int) ([]int, error) {
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
