package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	restartDelay = 500 * time.Millisecond
	stopTimeout  = 2 * time.Second
	logLimit     = 4 << 20
)

// pod is a static pod: one program that is started again whenever it ends.
type pod struct {
	binary string
	log    string
	args   func() []string
	logf   func(format string, args ...any)

	mu  sync.Mutex
	cmd *exec.Cmd
}

// run keeps the program running until the context ends.
func (p *pod) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := p.once(ctx); err != nil {
			p.logf("static pod %s: %v", filepath.Base(filepath.Dir(p.log)), err)
		}
		pause(ctx, restartDelay)
	}
}

func (p *pod) once(ctx context.Context) error {
	log, err := openLog(p.log)
	if err != nil {
		return err
	}
	defer log.Close()
	args := p.args()
	cmd := exec.CommandContext(ctx, p.binary, args[1:]...)
	cmd.Args[0], cmd.Stdout, cmd.Stderr = args[0], log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTimeout
	p.mu.Lock()
	err = cmd.Start()
	p.cmd = cmd
	p.mu.Unlock()
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	return cmd.Wait()
}

// restart ends the program, which then comes back with new arguments.
func (p *pod) restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil && p.cmd.Process != nil {
		_ = p.cmd.Process.Kill()
	}
}

// openLog appends, and starts over when the file has grown.
func openLog(file string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	flags := os.O_CREATE | os.O_APPEND | os.O_WRONLY
	if info, err := os.Stat(file); err == nil && info.Size() > logLimit {
		flags |= os.O_TRUNC
	}
	f, err := os.OpenFile(file, flags, 0o644)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	return f, err
}

// pause waits, and says whether the context is still on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
