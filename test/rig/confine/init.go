package confine

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// listenerFD is the first file after the standard ones.
const listenerFD = 3

// Init is the rig's first process. It sets up the namespaces, forwards the
// machine's connections to target and runs services until it is killed.
func (s State) Init(target string) error {
	listener, err := net.FileListener(os.NewFile(listenerFD, "listener"))
	if err != nil {
		return fmt.Errorf("take over the listener: %w", err)
	}
	if err := errors.Join(s.setUpMounts(), setUpNetwork(), s.setUpCgroups()); err != nil {
		return err
	}
	// The same address inside lets one kubeconfig work on both sides.
	inside, err := net.Listen("tcp", listener.Addr().String())
	if err != nil {
		return fmt.Errorf("listen inside: %w", err)
	}
	go forward(listener, target)
	go forward(inside, target)
	if err := os.WriteFile(s.Path("init.ready"), nil, 0o644); err != nil {
		return fmt.Errorf("report readiness: %w", err)
	}
	return newSupervisor(s).run()
}

func (s State) setUpMounts() error {
	resolv, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if err != nil {
		resolv = "/etc/resolv.conf"
	}
	steps := []mount{
		{"none", "/", "", syscall.MS_REC | syscall.MS_PRIVATE},
		{"none", "/", "", syscall.MS_REC | syscall.MS_SHARED},
		{"proc", "/proc", "proc", 0},
		{"tmpfs", "/run", "tmpfs", 0},
	}
	for place, name := range mounts {
		steps = append(steps, mount{s.Path(name), place, "", syscall.MS_BIND})
	}
	if err := mountAll(steps); err != nil {
		return err
	}
	return bindResolvConf(s, resolv)
}

// bindResolvConf allows for a target below /run, which is empty here.
func bindResolvConf(s State, target string) error {
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fmt.Errorf("prepare %s: %w", target, err)
	}
	f, err := os.OpenFile(target, os.O_CREATE|os.O_RDONLY, 0o644)
	if err != nil {
		return fmt.Errorf("prepare %s: %w", target, err)
	}
	return errors.Join(f.Close(), mountAll([]mount{{s.Path("resolv.conf"), target, "", syscall.MS_BIND}}))
}

type mount struct {
	source, target, kind string
	flags                uintptr
}

func mountAll(all []mount) error {
	for _, m := range all {
		if err := syscall.Mount(m.source, m.target, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mount %s on %s: %w", m.source, m.target, err)
		}
	}
	return nil
}

// setUpNetwork gives the node an address on a bridge without ports: nothing
// leads out of the namespace, and a default route keeps Kubernetes content.
func setUpNetwork() error {
	for _, command := range []string{
		"ip link set lo up",
		"ip link add node0 type bridge",
		"ip addr add " + NodeIP + "/32 dev node0",
		"ip link set node0 up",
		"ip route add default dev node0",
	} {
		words := strings.Fields(command)
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", command, err, out)
		}
	}
	for _, name := range []string{"ip_forward", "conf/all/route_localnet"} {
		if err := os.WriteFile("/proc/sys/net/ipv4/"+name, []byte("1"), 0o644); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

// setUpCgroups makes the root of the pods' cgroups in every hierarchy. A new
// cpuset takes no process before it has processors and memory nodes.
func (s State) setUpCgroups() error {
	hierarchies, err := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	if err != nil {
		return err
	}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.procs"); err == nil {
		hierarchies = []string{"/sys/fs/cgroup/cgroup.procs"}
	}
	for _, file := range hierarchies {
		parent := filepath.Dir(file)
		if err := os.MkdirAll(filepath.Join(parent, s.CgroupRoot()), 0o755); err != nil {
			return fmt.Errorf("make a cgroup: %w", err)
		}
		for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(parent, name))
			if err != nil {
				continue
			}
			if err := os.WriteFile(filepath.Join(parent, s.CgroupRoot(), name), value, 0o644); err != nil {
				return fmt.Errorf("set %s: %w", name, err)
			}
		}
	}
	return nil
}

func forward(listener net.Listener, target string) {
	for {
		outside, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer outside.Close()
			inside, err := net.Dial("tcp", target)
			if err != nil {
				return
			}
			Splice(outside, inside)
		}()
	}
}

// Splice copies both ways until both ends are done, and closes both.
func Splice(a, b net.Conn) {
	done := make(chan struct{})
	pipe := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
		done <- struct{}{}
	}
	go pipe(a, b)
	go pipe(b, a)
	<-done
	<-done
	_ = a.Close()
	_ = b.Close()
}
