package confine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const startTimeout = 30 * time.Second

// Pid returns the machine's process id of the rig's init, or false when the
// rig does not run.
func (s State) Pid() (int, bool) {
	data, err := os.ReadFile(s.Path("init.pid"))
	if err != nil {
		return 0, false
	}
	pid, err := strconv.Atoi(string(data))
	if err != nil {
		return 0, false
	}
	// The number may belong to another process since a reboot.
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	want := []byte("\x00init\x00" + string(s) + "\x00")
	return pid, err == nil && bytes.HasSuffix(args, want)
}

// Start runs "EXECUTABLE init STATE" in namespaces of its own and returns when
// these are set up. The listener is handed to it: connections of the machine
// reach the API server through it and through nothing else.
func (s State) Start(ctx context.Context, executable, listen string) error {
	if _, running := s.Pid(); running {
		return nil
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("listen for the machine's kubectl: %w (set RIG_API_PORT to a free port)", err)
	}
	defer listener.Close()
	file, err := listener.(*net.TCPListener).File()
	if err != nil {
		return fmt.Errorf("hand over the listener: %w", err)
	}
	defer file.Close()
	if err := s.prepare(); err != nil {
		return err
	}
	log, err := os.OpenFile(s.Path("log", "init.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the log of init: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(executable, "init", string(s))
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, "/"
	cmd.ExtraFiles = []*os.File{file}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the namespaces: %w (this needs root)", err)
	}
	if err := os.WriteFile(s.Path("init.pid"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o644); err != nil {
		return errors.Join(fmt.Errorf("note the process id: %w", err), cmd.Process.Kill())
	}
	return s.waitInit(ctx, cmd)
}

func (s State) prepare() error {
	err := errors.Join(
		os.RemoveAll(s.Path("init.ready")), os.RemoveAll(s.Path("services")),
		os.MkdirAll(s.Path("log"), 0o755), os.MkdirAll(s.Path("services"), 0o755),
		os.WriteFile(s.Path("resolv.conf"), []byte("nameserver "+NodeIP+"\n"), 0o644))
	for place, name := range mounts {
		err = errors.Join(err, os.MkdirAll(place, 0o755), os.MkdirAll(s.Path(name), 0o755))
	}
	if err != nil {
		return fmt.Errorf("prepare %s: %w", s, err)
	}
	return nil
}

func (s State) waitInit(ctx context.Context, cmd *exec.Cmd) error {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	deadline := time.After(startTimeout)
	for {
		if _, err := os.Stat(s.Path("init.ready")); err == nil {
			return nil
		}
		select {
		case err := <-ended:
			return fmt.Errorf("set up the namespaces: %w (see %s)", err, s.Path("log", "init.log"))
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline:
			return fmt.Errorf("set up the namespaces: no answer in %s (see %s)", startTimeout, s.Path("log", "init.log"))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Stop kills the rig and removes its cgroups. With keep the state stays.
func (s State) Stop(keep bool) error {
	if pid, running := s.Pid(); running {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			return fmt.Errorf("kill the rig: %w", err)
		}
		for range 200 {
			if _, running = s.Pid(); !running {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	err := s.removeCgroups()
	if keep {
		return errors.Join(err, os.RemoveAll(s.Path("init.pid")), os.RemoveAll(s.Path("init.ready")))
	}
	return errors.Join(err, retry(func() error { return os.RemoveAll(string(s)) }))
}

// retry allows for the kernel to finish with the mounts of dead processes.
func retry(f func() error) (err error) {
	for range 40 {
		if err = f(); err == nil {
			return nil
		}
		time.Sleep(250 * time.Millisecond)
	}
	return err
}

func (s State) removeCgroups() error {
	roots, err := filepath.Glob("/sys/fs/cgroup/*" + s.CgroupRoot())
	if err != nil {
		return err
	}
	roots = append(roots, "/sys/fs/cgroup"+s.CgroupRoot())
	return retry(func() (err error) {
		for _, root := range roots {
			err = errors.Join(err, removeCgroup(root))
		}
		return err
	})
}

func removeCgroup(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		if entry.IsDir() {
			err = errors.Join(err, removeCgroup(filepath.Join(dir, entry.Name())))
		}
	}
	if remove := syscall.Rmdir(dir); remove != nil && !errors.Is(remove, os.ErrNotExist) {
		err = errors.Join(err, fmt.Errorf("remove cgroup %s: %w", dir, remove))
	}
	return err
}
