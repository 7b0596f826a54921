package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const restartDelay = time.Second

// Service is a program that init keeps running.
type Service struct {
	Name string
	Path string
	Args []string
	Env  []string
}

// Run hands services to init. One that runs already with the same command is
// left alone; one with another command is started anew.
func (s State) Run(services ...Service) error {
	for _, service := range services {
		data, err := json.Marshal(service)
		if err != nil {
			return fmt.Errorf("describe service %s: %w", service.Name, err)
		}
		file := s.Path("services", service.Name+".json")
		if err := os.WriteFile(file+".tmp", data, 0o644); err != nil {
			return fmt.Errorf("describe service %s: %w", service.Name, err)
		}
		if err := os.Rename(file+".tmp", file); err != nil {
			return fmt.Errorf("describe service %s: %w", service.Name, err)
		}
	}
	return nil
}

type running struct {
	definition string
	pid        int
	notBefore  time.Time
}

// supervisor is one loop without locks. Being process 1, it also collects the
// orphans of its namespace, so it never waits for a particular process.
type supervisor struct {
	state    State
	services map[string]*running
}

func newSupervisor(s State) *supervisor {
	return &supervisor{state: s, services: map[string]*running{}}
}

func (v *supervisor) run() error {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	tick := time.NewTicker(200 * time.Millisecond)
	for {
		v.reap()
		if err := v.scan(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		select {
		case <-children:
		case <-tick.C:
		}
	}
}

func (v *supervisor) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		for name, r := range v.services {
			if r.pid == pid {
				fmt.Fprintf(os.Stderr, "%s %s ended: exit %d signal %d\n", time.Now().Format(time.TimeOnly), name, status.ExitStatus(), status.Signal())
				r.pid, r.notBefore = 0, time.Now().Add(restartDelay)
			}
		}
	}
}

func (v *supervisor) scan() error {
	files, err := filepath.Glob(v.state.Path("services", "*.json"))
	if err != nil {
		return err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read a service: %w", err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if v.services[name] == nil {
			v.services[name] = &running{}
		}
		if err := v.settle(v.services[name], data); err != nil {
			return fmt.Errorf("run %s: %w", name, err)
		}
	}
	return nil
}

func (v *supervisor) settle(r *running, data []byte) error {
	if r.pid != 0 && r.definition != string(data) {
		return syscall.Kill(r.pid, syscall.SIGTERM)
	}
	if r.pid != 0 || time.Now().Before(r.notBefore) {
		return nil
	}
	var service Service
	if err := json.Unmarshal(data, &service); err != nil {
		return err
	}
	r.definition, r.notBefore = string(data), time.Now().Add(restartDelay)
	pid, err := v.state.start(service)
	r.pid = pid
	return err
}

func (s State) start(service Service) (int, error) {
	log, err := os.OpenFile(s.Path("log", service.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	process, err := os.StartProcess(service.Path, service.Args, &os.ProcAttr{
		Dir: "/", Env: Environment(os.Environ(), service.Env), Files: []*os.File{null, log, log},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, err
	}
	pid := process.Pid
	return pid, process.Release()
}
