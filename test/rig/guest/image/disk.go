package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"opdev.io/guestcluster/test/rig/builds"
	"opdev.io/guestcluster/test/rig/guest/disk"
)

// DiskSize is the virtual size in bytes: 31 GiB, as bundles have it.
const DiskSize = 33285996544

const (
	partialSuffix = ".partial"
	kept          = 4
)

// programFolders shape the guest's programs.
var programFolders = []string{"", "certs", "cluster", "cmd/guestd", "cmd/launcher", "cmd/oc", "daemon", "disk", "faults", "machine", "../pki"}

// Compile builds a static program of the guest, or finds it: asking the
// toolchain whether something is to do takes seconds on a busy machine.
func Compile(ctx context.Context, programs builds.Builder, cache, name string) (string, error) {
	b := &builder{programs: programs, cache: cache}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("make the cache: %w", err)
	}
	sources, err := b.sources(programFolders...)
	if err != nil {
		return "", err
	}
	modules, err := os.ReadFile(filepath.Join(programs.Root, "go.sum"))
	if err != nil {
		return "", fmt.Errorf("read the module's sums: %w", err)
	}
	target := b.path(name, digest(runtime.Version(), sources, string(modules)), "")
	if exists(target) {
		return target, nil
	}
	partial, err := os.MkdirTemp(cache, "partial-"+name)
	if err != nil {
		return "", fmt.Errorf("compile %s: %w", name, err)
	}
	defer os.RemoveAll(partial)
	file := filepath.Join(partial, name)
	err = b.run(ctx, "env", "-C", programs.Root, "CGO_ENABLED=0", "GOFLAGS=", "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w",
		"-o", file, "./test/rig/guest/cmd/"+name)
	if err != nil {
		return "", fmt.Errorf("compile %s: %w", name, err)
	}
	return target, errors.Join(os.Rename(file, target), b.forget(name+"-*", kept))
}

func (b *builder) disk(ctx context.Context) (Parts, error) {
	guestd, err := Compile(ctx, b.programs, b.cache, "guestd")
	if err != nil {
		return Parts{}, err
	}
	oc, err := Compile(ctx, b.programs, b.cache, "oc")
	if err != nil {
		return Parts{}, err
	}
	rootfs, err := b.rootfs(ctx)
	if err != nil {
		return Parts{}, err
	}
	parked, err := b.parked(ctx)
	if err != nil {
		return Parts{}, err
	}
	key, err := b.diskKey(rootfs, parked.dir, guestd, oc)
	if err != nil {
		return Parts{}, err
	}
	parts := Parts{Disk: b.path("disk", key, ".img"), SSHPrivateKey: parked.file("id_ecdsa_crc"), Kubeconfig: parked.file("kubeconfig"), OC: oc}
	if exists(parts.Disk) {
		return parts, nil
	}
	start := time.Now()
	b.log("assemble the disk")
	if err := b.assemble(ctx, parts.Disk, contents{rootfs: rootfs, parked: parked, guestd: guestd, oc: oc}); err != nil {
		return Parts{}, fmt.Errorf("assemble the disk: %w", err)
	}
	b.log("assembled the disk in %s", time.Since(start).Round(time.Second))
	return parts, errors.Join(b.forget("disk-*.img", kept), b.forget("parked-*", kept), b.forget("rootfs-*.tar", kept))
}

func (b *builder) diskKey(rootfs, parked, guestd, oc string) (string, error) {
	sum := sha256.New()
	for _, file := range []string{guestd, oc} {
		f, err := os.Open(file)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(sum, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return "", err
		}
	}
	sources, err := b.sources("image", "disk")
	return digest(filepath.Base(rootfs), filepath.Base(parked), hex.EncodeToString(sum.Sum(nil)), sources), err
}

// assemble makes partitions and file systems in a new file.
func (b *builder) assemble(ctx context.Context, target string, c contents) (err error) {
	partial := target + partialSuffix
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	f, err := os.Create(partial)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(DiskSize), f.Close()); err != nil {
		return err
	}
	if err := b.feed(ctx, strings.NewReader(disk.Script), "sfdisk", "--quiet", partial); err != nil {
		return err
	}
	if err := b.format(ctx, partial); err != nil {
		return err
	}
	if err := disk.WithRoot(partial, func(root string) error { return b.fill(ctx, root, c) }); err != nil {
		return err
	}
	return os.Rename(partial, target)
}

func (b *builder) format(ctx context.Context, image string) error {
	part, err := disk.Partition(image, disk.Root)
	if err != nil {
		return err
	}
	loop, err := disk.Attach(image, part)
	if err != nil {
		return err
	}
	err = b.run(ctx, "mkfs.xfs", "-q", "-K", "-f", "-L", "root", loop.Path())
	loop.Close()
	return errors.Join(err, loop.WaitDetached(10*time.Second))
}
