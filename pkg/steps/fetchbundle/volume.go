package fetchbundle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"opdev.io/guestcluster/pkg/steps/bundle/qcow2"
	"opdev.io/guestcluster/pkg/steps/step"
)

// KubeVirt wants exactly this file, raw.
const (
	diskName    = "disk.img"
	partialName = "disk.img.partial"
)

// diskMode lets the group read and write, which is the volume's own: KubeVirt
// opens the disk as a member of it, under a user that nobody knows here.
const diskMode = 0o660

// parts is how many lines tell how far a conversion is.
const parts = 10

// volume is the mounted golden volume.
type volume struct{ dir string }

// clean removes what an earlier pod left. Only an unsealed volume gets here.
func (v volume) clean() error {
	for _, name := range []string{diskName, partialName} {
		if err := os.Remove(filepath.Join(v.dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return v.explain("clean golden volume", err)
		}
	}
	return nil
}

// explain says what to do about a volume that cannot be written.
func (v volume) explain(doing string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return step.UserError("%s: %w: set a larger goldenVolumeSize, or another storage class", doing, err)
	case errors.Is(err, os.ErrPermission):
		return step.UserError("%s: %w: the storage class must honour fsGroup", doing, err)
	}
	return step.InfraError("%s: %w", doing, err)
}

// convert writes the disk to the volume: under another name until it is whole
// and on stable storage.
func (f *Fetcher) convert(ctx context.Context, packed *os.File, v volume) (err error) {
	image, err := qcow2.Open(packed)
	if err != nil {
		return step.UserError("disk of the bundle: %w", err)
	}
	partial := filepath.Join(v.dir, partialName)
	raw, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, diskMode)
	if err != nil {
		return v.explain("make disk", err)
	}
	defer func() {
		raw.Close()
		if err != nil {
			os.Remove(partial)
		}
	}()
	for _, do := range []func() error{
		func() error { return raw.Chmod(diskMode) },
		func() error { return raw.Truncate(image.VirtualSize) },
	} {
		if err := do(); err != nil {
			return v.explain("make disk", err)
		}
	}
	if err := f.copy(ctx, image, raw, v); err != nil {
		return err
	}
	return f.settle(raw, v)
}

func (f *Fetcher) copy(ctx context.Context, image *qcow2.Image, raw *os.File, v volume) error {
	part := int64(0)
	target := &target{File: raw}
	err := image.CopyTo(ctx, target, func(done int64) {
		if now := done * parts / image.VirtualSize; now != part {
			part = now
			fmt.Fprintf(f.Progress, "converted %d %% of the disk\n", part*100/parts)
		}
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return step.Interrupted(ctx, nil)
	case target.err != nil:
		return v.explain("write disk", target.err)
	}
	return step.UserError("disk of the bundle: %w", err)
}

// target tells an error of the volume from one of the image.
type target struct {
	*os.File
	err error
}

func (t *target) WriteAt(p []byte, offset int64) (int, error) {
	n, err := t.File.WriteAt(p, offset)
	if err != nil {
		t.err = err
	}
	return n, err
}

// settle puts the disk in its place once all of it is on stable storage.
func (f *Fetcher) settle(raw *os.File, v volume) error {
	if err := raw.Sync(); err != nil {
		return v.explain("sync disk", err)
	}
	if err := os.Rename(filepath.Join(v.dir, partialName), filepath.Join(v.dir, diskName)); err != nil {
		return v.explain("rename disk", err)
	}
	dir, err := os.Open(v.dir)
	if err != nil {
		return v.explain("sync golden volume", err)
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil {
		return v.explain("sync golden volume", err)
	}
	fmt.Fprintf(f.Progress, "wrote /%s and synced it\n", diskName)
	return nil
}
