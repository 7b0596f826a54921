package mirror

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Odd is a small bundle that the mirror serves under a version of its own. Its
// disk boots nothing; it has the virtual size of a real one.
type Odd struct {
	// Version on the mirror, and the bundle's unless that is what is odd.
	Version string
	// Arch of the bundle's name: amd64 unless told.
	Arch string
	// What is odd about it.
	What string
	// Refused tells that it must not become a golden volume.
	Refused bool
	// VirtualSize of the disk: 31 GiB unless told.
	VirtualSize int64
	// Fault of the server when it sends the bundle (faults.go).
	Fault string

	change func(*recipe)
}

// Virtual sizes of published disks: until 4.21, and since.
const (
	Size31 = 31 << 30
	Size43 = 43 << 30
)

// OddOf returns the odd bundle of a version.
func OddOf(version string) (Odd, bool) {
	i := slices.IndexFunc(Odds, func(o Odd) bool { return o.Version == version })
	if i < 0 {
		return Odd{}, false
	}
	return Odds[i], true
}

// options are quick and always the same.
func (o Odd) options() Options {
	return Options{
		Version: o.Version, Arch: o.Arch, Level: LevelQuick,
		BuildTime: time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC),
	}.withDefaults()
}

// Make returns the folder of the odd bundle below cacheDir, which must be
// removed when this program changes: nothing else tells of a change.
func (o Odd) Make(ctx context.Context, cacheDir string) (string, error) {
	size := o.VirtualSize
	if size == 0 {
		size = Size31
	}
	parts, err := tinyParts(cacheDir, size)
	if err != nil {
		return "", err
	}
	recipe := newRecipe(o.options())
	if o.change != nil {
		o.change(recipe)
	}
	dir, err := ensure(filepath.Join(cacheDir, o.Version), func(tmp string) error {
		return recipe.build(ctx, cacheDir, parts, tmp)
	})
	if err != nil {
		return "", fmt.Errorf("make bundle %s (%s): %w", o.Version, o.What, err)
	}
	return dir, nil
}

// tinyParts makes parts with everything but content.
func tinyParts(cacheDir string, size int64) (Parts, error) {
	dir, err := ensure(filepath.Join(cacheDir, fmt.Sprintf("tiny-%d", size>>30)), func(tmp string) error {
		if err := tinyDisk(filepath.Join(tmp, "disk.img"), size); err != nil {
			return err
		}
		if err := tinyKey(filepath.Join(tmp, "id_ecdsa_crc")); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(tmp, "oc"), []byte("#!/bin/sh\nexec kubectl \"$@\"\n"), 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(tmp, "kubeconfig"), []byte(tinyKubeconfig), 0o644)
	})
	file := func(name string) string { return filepath.Join(dir, name) }
	return Parts{Disk: file("disk.img"), SSHPrivateKey: file("id_ecdsa_crc"), Kubeconfig: file("kubeconfig"), OC: file("oc")}, err
}
