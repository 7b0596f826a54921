package cdi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	diskName = "disk.img"
	// qemu is the user and group that KubeVirt's guests run as.
	qemu      = 107
	copyChunk = 16 << 20
)

// clone copies a volume's image, holes as holes.
func clone(ctx context.Context, from, to string, report func(done, total int64)) error {
	source, err := os.Open(filepath.Join(from, diskName))
	if err != nil {
		return fmt.Errorf("open the source image: %w", err)
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return fmt.Errorf("inspect the source image: %w", err)
	}
	target, err := os.OpenFile(filepath.Join(to, diskName), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o660)
	if err != nil {
		return fmt.Errorf("create the target image: %w", err)
	}
	defer target.Close()
	if unix.IoctlFileClone(int(target.Fd()), int(source.Fd())) == nil {
		return nil
	}
	if err := target.Truncate(info.Size()); err != nil {
		return fmt.Errorf("size the target image: %w", err)
	}
	return copyData(ctx, target, source, info, report)
}

func copyData(ctx context.Context, target, source *os.File, info os.FileInfo, report func(done, total int64)) error {
	total := allocated(info)
	var copied, offset int64
	for {
		start, end, err := nextData(source, offset, info.Size())
		if err != nil || start == info.Size() {
			return err
		}
		for offset = start; offset < end; {
			if err := ctx.Err(); err != nil {
				return err
			}
			n, err := copyRange(target, source, offset, min(end-offset, copyChunk))
			if err != nil {
				return fmt.Errorf("copy at %d: %w", offset, err)
			}
			offset, copied = offset+n, copied+n
			report(copied, total)
		}
	}
}

// allocated counts what is no hole, roughly.
func allocated(info os.FileInfo) int64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Blocks * 512
	}
	return info.Size()
}

// nextData is the next range that is no hole, or an empty one at the end.
func nextData(f *os.File, offset, size int64) (start, end int64, err error) {
	start, err = unix.Seek(int(f.Fd()), offset, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return size, size, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("find data: %w", err)
	}
	end, err = unix.Seek(int(f.Fd()), start, unix.SEEK_HOLE)
	if err != nil {
		return 0, 0, fmt.Errorf("find the end of data: %w", err)
	}
	return start, end, nil
}

func copyRange(target, source *os.File, offset, length int64) (int64, error) {
	from, to := offset, offset
	n, err := unix.CopyFileRange(int(source.Fd()), &from, int(target.Fd()), &to, int(length), 0)
	if err == nil && n > 0 {
		return int64(n), nil
	}
	return io.Copy(io.NewOffsetWriter(target, offset), io.NewSectionReader(source, offset, length))
}

// settleImage gives an image its final size and owner.
func settleImage(dir string, size int64) error {
	file := filepath.Join(dir, diskName)
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("find the image: %w", err)
	}
	if info.Size() > size {
		return fmt.Errorf("virtual image size %d is larger than the reported available storage %d. A larger PVC is required", info.Size(), size)
	}
	if err := os.Truncate(file, size); err != nil {
		return fmt.Errorf("resize the image: %w", err)
	}
	return errors.Join(os.Chown(file, qemu, qemu), os.Chmod(file, 0o660))
}
