package mirror

import (
	"fmt"
	"time"

	"opdev.io/guestcluster/test/rig/guest"
)

// Levels of zstd. Published bundles have level 22, which takes minutes for what
// level 3 does in seconds. A reader sees no difference: the window is the same.
const (
	LevelPublished = 19
	LevelQuick     = 3
)

// window is the zstd window of bundles as a power of two: 128 MiB.
const window = 27

// Options say which bundle to make.
type Options struct {
	// Version is OpenShift's, Arch amd64 or arm64 (default amd64).
	Version, Arch string
	// BuildTime is when the disk was parked; default is the disk's own time.
	BuildTime time.Time
	// Level is zstd's; default LevelPublished.
	Level int
	// Log tells about work that takes long; nil is silent.
	Log func(format string, args ...any)
}

// Name is the name of the bundle without its ending.
func (o Options) Name() string { return bundleName("libvirt", o.Version, o.Arch) }

// File is the name of the bundle's file.
func (o Options) File() string { return o.Name() + ending }

func (o Options) log(format string, args ...any) {
	if o.Log != nil {
		o.Log(format, args...)
	}
}

func (o Options) withDefaults() Options {
	if o.Arch == "" {
		o.Arch = "amd64"
	}
	if o.Level == 0 {
		o.Level = LevelPublished
	}
	return o
}

const ending = ".crcbundle"

func bundleName(driver, version, arch string) string {
	return fmt.Sprintf("crc_%s_%s_%s", driver, version, arch)
}

// Parts are the files that become a bundle.
type Parts = guest.Parts
