package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"opdev.io/guestcluster/test/rig/builds"
	"opdev.io/guestcluster/test/rig/confine"
	"opdev.io/guestcluster/test/rig/controlplane"
	"opdev.io/guestcluster/test/rig/images"
)

const (
	ingressDomain   = "apps.rig.test"
	registryAddress = confine.NodeIP + ":5000"
	apiAddress      = confine.NodeIP + ":6443"
	// admissionAddress is not 9443, which the product's webhook may take.
	admissionAddress = confine.NodeIP + ":9843"
	baseImage        = registryAddress + "/base:latest"
	pauseImage       = registryAddress + "/pause:latest"
	guestRepository  = registryAddress + "/guest-kube"
	guestImage       = guestRepository + ":" + builds.KubeVersion
	launcherImage    = registryAddress + "/guest-launcher:latest"
	admissionURL     = "https://" + admissionAddress + "/datavolumes"
	probeTimeout     = 3 * time.Minute
)

// rig is one rig of this machine and what is needed to work on it.
type rig struct {
	state   confine.State
	builder builds.Builder
	plan    controlplane.Plan
	images  images.Client
	port    string
	started time.Time
}

func newRig() (*rig, error) {
	builder, err := builds.New()
	if err != nil {
		return nil, err
	}
	state := confine.State(setting("RIG_STATE", "/var/lib/guestcluster-rig"))
	r := &rig{
		state: state, builder: builder, port: setting("RIG_API_PORT", "16443"), started: time.Now(),
		images: images.Client{Dial: state.Dial},
		plan: controlplane.Plan{
			Dir: string(state), Address: confine.NodeIP, API: 6443, Etcd: 2379, EtcdPeer: 2380, Node: true,
		},
	}
	r.builder.Log = r.log
	return r, nil
}

func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

// log prints a line with the time since the start as [mm:ss].
func (r *rig) log(format string, args ...any) {
	elapsed := int(time.Since(r.started).Seconds())
	fmt.Printf("[%02d:%02d] %s\n", elapsed/60, elapsed%60, fmt.Sprintf(format, args...))
}

// variables are what a command needs to work with the rig.
func (r *rig) variables() []string {
	return []string{
		"RIG_STATE=" + string(r.state),
		"RIG_BIN=" + r.state.Path("bin"),
		"KUBECONFIG=" + r.state.Path("kubeconfig"),
		"RIG_REGISTRY=" + registryAddress,
		"RIG_INGRESS_DOMAIN=" + ingressDomain,
		"RIG_GUEST_IMAGE=" + guestImage,
		"RIG_BASE_IMAGE=" + baseImage,
		"KO_DOCKER_REPO=" + registryAddress + "/guestcluster",
		"KO_DEFAULTBASEIMAGE=" + baseImage,
		// The module proxy is out of reach inside; modules come from the cache.
		"GOPROXY=off",
		"GOFLAGS=-buildvcs=false",
		"GOTOOLCHAIN=local",
	}
}

func (r *rig) writeEnv() error {
	lines := append(r.variables(), "PATH="+r.state.Path("bin")+":$PATH")
	text := ""
	for _, line := range lines {
		text += "export " + line + "\n"
	}
	if err := os.WriteFile(r.state.Path("env"), []byte(text), 0o644); err != nil {
		return fmt.Errorf("write the environment file: %w", err)
	}
	return nil
}

func (r *rig) exec(argv []string) error {
	path := r.state.Path("bin") + ":" + os.Getenv("PATH") + ":/usr/sbin:/sbin"
	if err := os.Setenv("PATH", path); err != nil {
		return err
	}
	inside := []string{"PATH=" + path, "KUBECONFIG=" + r.state.Path("kubeconfig-inside")}
	env := confine.Environment(os.Environ(), r.variables(), inside)
	return r.state.Exec(argv, env)
}

// link makes STATE/bin/NAME point at a program.
func (r *rig) link(target string, names ...string) error {
	for _, name := range names {
		link := r.state.Path("bin", name)
		if current, err := os.Readlink(link); err == nil && current == target {
			continue
		}
		tmp := link + ".tmp"
		_ = os.Remove(tmp)
		if err := os.Symlink(target, tmp); err != nil {
			return fmt.Errorf("link %s: %w", name, err)
		}
		if err := os.Rename(tmp, link); err != nil {
			return fmt.Errorf("link %s: %w", name, err)
		}
	}
	return nil
}

func (r *rig) down(keep bool) error {
	if !filepath.IsAbs(string(r.state)) || r.state == "/" {
		return fmt.Errorf("RIG_STATE is %q: give the absolute path of a folder of its own", r.state)
	}
	if err := r.state.Stop(keep); err != nil {
		return err
	}
	r.log("the rig is down")
	return nil
}
