package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"opdev.io/guestcluster/test/rig/builds"
	"opdev.io/guestcluster/test/rig/confine"
	"opdev.io/guestcluster/test/rig/controlplane"
	"opdev.io/guestcluster/test/rig/guest"
	"opdev.io/guestcluster/test/rig/images"
	"opdev.io/guestcluster/test/rig/mirror"
	"opdev.io/guestcluster/test/rig/pki"
	"opdev.io/guestcluster/test/rig/standins"
)

// up is safe to repeat: each step leaves alone what is there already.
func (r *rig) up(ctx context.Context) error {
	if err := r.installPackages(ctx); err != nil {
		return err
	}
	if err := r.startNamespaces(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	ready := make(chan struct{})
	var release []byte
	programs := r.startBuilds(ctx, func(ctx context.Context) (err error) {
		select {
		case <-ready:
		case <-ctx.Done():
			return ctx.Err()
		}
		release, err = r.resolveTekton(ctx)
		return err
	})
	// No compiler may outlive this program.
	defer func() {
		cancel()
		<-programs.after.done
	}()
	steps := []func(context.Context, *compiling) error{
		r.pushSmallImages,
		func(context.Context, *compiling) error { close(ready); return nil },
		r.startControlPlane, r.waitAPI, r.applyManifests, r.startStandins,
		r.pushGuestImage, r.pushLauncherImage, r.startMirror, r.startNode, r.waitNode,
	}
	for _, step := range steps {
		if err := step(ctx, programs); err != nil {
			return err
		}
	}
	if _, err := programs.after.wait(ctx); err != nil {
		return err
	}
	if err := r.installTekton(ctx, release); err != nil {
		return err
	}
	if err := r.bundles(ctx, []string{bundleVersion}); err != nil {
		return err
	}
	r.log("the rig is up: try `make rig-shell` or `export KUBECONFIG=%s`", r.state.Path("kubeconfig"))
	return nil
}

// startNamespaces starts what needs no compiled program: the namespaces with
// their init, and the registry, which is this program.
func (r *rig) startNamespaces(ctx context.Context) error {
	for _, dir := range []string{"bin", "config", "registry", "volumes"} {
		if err := os.MkdirAll(r.state.Path(dir), 0o755); err != nil {
			return fmt.Errorf("make the state folder: %w (set RIG_STATE to a writable folder)", err)
		}
	}
	program, err := r.keepProgram()
	if err != nil {
		return err
	}
	if err := r.state.Start(ctx, program, "127.0.0.1:"+r.port); err != nil {
		return err
	}
	if err := errors.Join(r.link(program, "rig"), r.identify(), r.writeEnv()); err != nil {
		return err
	}
	return r.state.Run(confine.Service{
		Name: "registry", Path: program, Args: []string{"rig", "serve-registry", r.state.Path("registry")},
	})
}

// keepProgram copies this program into the state, named by its content: a
// changed one makes init start the services anew that are part of it.
func (r *rig) keepProgram() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	data, err := os.ReadFile(self)
	if err != nil {
		return "", fmt.Errorf("read this program: %w", err)
	}
	target := r.state.Path("bin", fmt.Sprintf("rig-%x", sha256.Sum256(data))[:16])
	if _, err := os.Stat(target); err == nil {
		return target, nil
	}
	if err := os.WriteFile(target+".tmp", data, 0o755); err != nil {
		return "", fmt.Errorf("copy this program: %w", err)
	}
	return target, os.Rename(target+".tmp", target)
}

func (r *rig) identify() error {
	ids, err := controlplane.EnsureIdentities(r.plan.IdentityDir(), confine.NodeName,
		net.ParseIP("127.0.0.1"), net.ParseIP(r.plan.Address), net.ParseIP("10.96.0.1"))
	if err != nil {
		return err
	}
	err = errors.Join(
		r.plan.WriteAdmission(),
		ids.Ensure(standins.Certificate, pki.Subject{User: "rig-standins", IPs: []net.IP{net.ParseIP(confine.NodeIP)}}),
		ids.Ensure(mirrorCertificate, pki.Subject{User: "rig-mirror", Names: mirror.Hosts, IPs: []net.IP{net.ParseIP(mirror.Address)}}),
		ids.WriteKubeconfig(r.state.Path("kubeconfig"), "admin", "https://127.0.0.1:"+r.port),
		ids.WriteKubeconfig(r.state.Path("kubeconfig-inside"), "admin", r.plan.URL()))
	for _, name := range []string{"controllers", "scheduler", "node", "proxy", "dns"} {
		err = errors.Join(err, ids.WriteKubeconfig(r.config(name+".kubeconfig"), name, r.plan.URL()))
	}
	return err
}

func (r *rig) pushSmallImages(ctx context.Context, c *compiling) error {
	pause, err := c.program(ctx, builds.Pause)
	if err != nil {
		return err
	}
	if err := r.waitRegistry(ctx); err != nil {
		return err
	}
	base, err := images.Base()
	if err != nil {
		return err
	}
	sandbox, err := images.Pause(pause)
	if err != nil {
		return err
	}
	// A registry of an older program may just be on its way out.
	return r.poll(ctx, "the registry takes images", func() error {
		return errors.Join(r.images.Push(ctx, base, baseImage), r.images.Push(ctx, sandbox, pauseImage))
	})
}

func (r *rig) pushGuestImage(ctx context.Context, c *compiling) error {
	kube, err := c.program(ctx, builds.Kube)
	if err != nil {
		return err
	}
	etcd, err := c.program(ctx, builds.Etcd)
	if err != nil {
		return err
	}
	// The directories name the content, so a note of them tells of a push.
	note, pushed := r.state.Path("registry", "guest-image"), filepath.Dir(kube)+"\n"+filepath.Dir(etcd)
	if old, err := os.ReadFile(note); err == nil && string(old) == pushed {
		return nil
	}
	base, err := images.Base()
	if err != nil {
		return err
	}
	guest, err := images.Guest(base, kube, etcd, builds.Kube.Links)
	if err != nil {
		return err
	}
	r.log("push the guest image")
	if err := r.images.Push(ctx, guest, guestImage, guestRepository+":latest"); err != nil {
		return err
	}
	return os.WriteFile(note, []byte(pushed), 0o644)
}

// pushLauncherImage pushes what virtual machines run.
func (r *rig) pushLauncherImage(ctx context.Context, _ *compiling) error {
	program, err := guest.Launcher(ctx, "")
	if err != nil {
		return err
	}
	launcher, err := images.Launcher(program)
	if err != nil {
		return err
	}
	return r.images.Push(ctx, launcher, launcherImage)
}

func (r *rig) waitRegistry(ctx context.Context) error {
	return r.poll(ctx, "the registry answers", func() error {
		conn, err := r.state.Dial(ctx, "tcp", registryAddress)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// poll repeats a probe until it succeeds, and tells its last error if not.
func (r *rig) poll(ctx context.Context, what string, probe func() error) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	for {
		err := probe()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w (last: %w; logs in %s)", what, ctx.Err(), err, r.state.Path("log"))
		case <-time.After(300 * time.Millisecond):
		}
	}
}
