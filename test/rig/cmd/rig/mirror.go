package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"opdev.io/guestcluster/test/rig/confine"
	"opdev.io/guestcluster/test/rig/guest"
	"opdev.io/guestcluster/test/rig/guest/cluster"
	"opdev.io/guestcluster/test/rig/mirror"
)

const (
	// bundleVersion is what the pristine disk's guest reports.
	bundleVersion     = cluster.DefaultVersion
	mirrorCertificate = "mirror"
)

func serveMirror(ctx context.Context, state confine.State) error {
	made := state.Path("mirror-odd")
	if err := os.RemoveAll(made); err != nil {
		return fmt.Errorf("remove an older program's bundles: %w", err)
	}
	server := &mirror.Server{Published: state.Path("mirror"), Made: made}
	identity := state.Path("pki", mirrorCertificate)
	return mirror.Serve(ctx, server, identity+".crt", identity+".key")
}

func (r *rig) startMirror(context.Context, *compiling) error {
	program, err := r.keepProgram()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.state.Path("mirror"), 0o755); err != nil {
		return fmt.Errorf("make the mirror's folder: %w", err)
	}
	return r.state.Run(confine.Service{Name: "mirror", Path: program, Args: []string{"rig", "serve-mirror", string(r.state)}})
}

// bundles makes the guest's bundles of these versions and publishes them.
func (r *rig) bundles(ctx context.Context, versions []string) error {
	if len(versions) == 0 {
		return errors.New("bundle needs a version: rig bundle 4.19.7")
	}
	level, err := strconv.Atoi(setting("RIG_BUNDLE_LEVEL", strconv.Itoa(mirror.LevelQuick)))
	if err != nil {
		return fmt.Errorf("read RIG_BUNDLE_LEVEL: %w", err)
	}
	parts, err := guest.Build(ctx, "")
	if err != nil {
		return fmt.Errorf("make the guest's disk: %w", err)
	}
	for _, version := range versions {
		if err := r.bundle(ctx, parts, mirror.Options{Version: version, Level: level, Log: r.log}); err != nil {
			return err
		}
	}
	return nil
}

func (r *rig) bundle(ctx context.Context, parts guest.Parts, o mirror.Options) error {
	cache := filepath.Join(r.builder.Cache, "bundles")
	if o.Version != bundleVersion {
		disk, err := mirror.Derive(ctx, cache, parts.Disk, o.Version)
		if err != nil {
			return err
		}
		parts.Disk = disk
	}
	dir, err := mirror.Make(ctx, cache, parts, o)
	if err != nil {
		return err
	}
	if err := mirror.Publish(r.state.Path("mirror"), o.Version, dir); err != nil {
		return err
	}
	r.log("bundle %s is on the mirror: %s", o.Version, mirror.URL(o))
	return r.keepKey(filepath.Join(dir, mirror.KeyName))
}

// keepKey puts the key of the bundles' disk where a person finds it.
func (r *rig) keepKey(file string) error {
	key, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the bundle's key: %w", err)
	}
	target := r.state.Path("bundle", mirror.KeyName)
	return errors.Join(
		os.MkdirAll(filepath.Dir(target), 0o755),
		os.WriteFile(target+".new", key, 0o600),
		os.Rename(target+".new", target))
}

// sum tells one content of a file from another.
func sum(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}
