package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"opdev.io/guestcluster/test/rig/apiserver"
)

// controlPlaneAlone runs an API server without a node. "up" returns when it
// answers and leaves a process behind that holds it; "down" ends that process.
func controlPlaneAlone(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("controlplane", flag.ContinueOnError)
	dir := flags.String("dir", "", "folder for state, logs and kubeconfig")
	if len(args) == 0 {
		return errors.New(usage)
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if !filepath.IsAbs(*dir) {
		return errors.New("controlplane needs --dir with an absolute path")
	}
	switch args[0] {
	case "up":
		return controlPlaneUp(ctx, *dir)
	case "hold":
		return controlPlaneHold(ctx, *dir)
	case "down":
		return controlPlaneDown(*dir)
	}
	return errors.New(usage)
}

func controlPlaneUp(ctx context.Context, dir string) error {
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.RemoveAll(filepath.Join(dir, "pid"))); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	log, err := os.Create(filepath.Join(dir, "hold.log"))
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	defer log.Close()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.Command(self, "controlplane", "hold", "--dir", dir)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the control plane: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		if _, err := os.Stat(filepath.Join(dir, "pid")); err == nil {
			fmt.Println("export KUBECONFIG=" + filepath.Join(dir, "kubeconfig"))
			return nil
		}
		select {
		case err := <-ended:
			return fmt.Errorf("start the control plane: %w (see %s)", err, log.Name())
		case <-ctx.Done():
			return errors.Join(ctx.Err(), cmd.Process.Kill())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func controlPlaneHold(ctx context.Context, dir string) error {
	server, err := apiserver.Start(ctx, apiserver.Options{Dir: dir, ControllerManager: true, Log: func(format string, args ...any) {
		fmt.Printf(format+"\n", args...)
	}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "pid"), []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
		return errors.Join(err, server.Stop())
	}
	<-ctx.Done()
	return errors.Join(server.Stop(), os.Remove(filepath.Join(dir, "pid")))
}

func controlPlaneDown(dir string) error {
	file := filepath.Join(dir, "pid")
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("find the control plane: %w", err)
	}
	pid, err := strconv.Atoi(string(data))
	if err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("end the control plane: %w", err)
	}
	for range 100 {
		if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return os.RemoveAll(dir)
}
