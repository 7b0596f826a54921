package guest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"opdev.io/guestcluster/test/rig/builds"
	"opdev.io/guestcluster/test/rig/guest/cluster"
	"opdev.io/guestcluster/test/rig/guest/disk"
	"opdev.io/guestcluster/test/rig/guest/faults"
	"opdev.io/guestcluster/test/rig/guest/image"
)

// DiskSize is the virtual size of the pristine disk in bytes: 31 GiB.
const DiskSize = image.DiskSize

// Parts is what a bundle is made of, as files in the cache. They are shared:
// copy the disk before something changes it.
type Parts struct {
	// Disk is the sparse raw image.
	Disk string
	// SSHPrivateKey is the key of user core (ECDSA P-521).
	SSHPrivateKey string
	// Kubeconfig is the installer's: cluster crc, context and user admin.
	Kubeconfig string
	// OC is an oc program for linux.
	OC string
}

// Disk builds the pristine parked disk, or finds it in cacheDir. An empty
// cacheDir is the rig's cache.
func Disk(ctx context.Context, cacheDir string) (string, error) {
	parts, err := Build(ctx, cacheDir)
	return parts.Disk, err
}

// Build makes all parts, or finds them in cacheDir. Progress goes to stderr.
func Build(ctx context.Context, cacheDir string) (Parts, error) {
	programs, cache, err := environment(cacheDir)
	if err != nil {
		return Parts{}, err
	}
	parts, err := image.Build(ctx, programs, cache)
	return Parts(parts), err
}

// environment finds the tree and the cache.
func environment(cacheDir string) (builds.Builder, string, error) {
	programs, err := builds.New()
	if err != nil {
		return builds.Builder{}, "", err
	}
	programs.Log = func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "guest: %s\n", fmt.Sprintf(format, args...))
	}
	if cacheDir == "" {
		cacheDir = filepath.Join(programs.Cache, "guest")
	}
	return programs, cacheDir, nil
}

// Settings are what a copy of the disk may say differently.
type Settings struct {
	// Version is the OpenShift version that the guest reports; default 4.19.3.
	Version string
	// Faults stay in the disk (README.md has the names).
	Faults []string
}

// Customize writes settings into a disk that no guest runs from.
func Customize(ctx context.Context, file string, settings Settings) error {
	if _, err := faults.Parse(settings.Faults); err != nil {
		return err
	}
	return disk.WithRoot(file, func(root string) error {
		if settings.Version != "" {
			if err := os.WriteFile(cluster.Root(root).Path(cluster.VersionFile), []byte(settings.Version+"\n"), 0o644); err != nil {
				return fmt.Errorf("write the version: %w", err)
			}
		}
		if err := os.WriteFile(filepath.Join(root, "etc/rig/faults"), []byte(strings.Join(settings.Faults, "\n")+"\n"), 0o644); err != nil {
			return fmt.Errorf("write the faults: %w", err)
		}
		return nil
	})
}

// Launcher compiles the static program that runs a guest (cmd/launcher). An
// empty cacheDir is the rig's cache.
func Launcher(ctx context.Context, cacheDir string) (string, error) {
	programs, cache, err := environment(cacheDir)
	if err != nil {
		return "", err
	}
	return image.Compile(ctx, programs, cache, "launcher")
}

// Copy copies a disk image sparsely, sharing blocks where the file system can.
func Copy(ctx context.Context, to, from string) error { return disk.Copy(ctx, to, from) }
