package guest

import (
	"context"
	"errors"
)

// DiskSize is the virtual size of the pristine disk in bytes: 31 GiB.
const DiskSize = 33285996544

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
	return Parts{}, errors.New("build the guest's disk: not yet")
}

// Settings are what a copy of the disk may say differently.
type Settings struct {
	// Version is the OpenShift version that the guest reports; default 4.19.3.
	Version string
	// Faults stay in the disk (README.md has the names).
	Faults []string
}

// Customize writes settings into a disk that no guest runs from.
func Customize(ctx context.Context, disk string, settings Settings) error {
	return errors.New("customize the disk: not yet")
}

// Launcher compiles the static program that runs a guest (cmd/launcher), or
// finds it in cacheDir. An empty cacheDir is the rig's cache.
func Launcher(ctx context.Context, cacheDir string) (string, error) {
	return "", errors.New("compile the launcher: not yet")
}

// Copy copies a disk image sparsely, sharing blocks where the file system can.
func Copy(ctx context.Context, to, from string) error {
	return errors.New("copy the disk: not yet")
}
