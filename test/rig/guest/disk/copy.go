package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

const chunk = 4 << 20

// Copy copies an image and keeps its holes; it shares blocks where the file
// system can. The target appears complete or not at all.
func Copy(ctx context.Context, to, from string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("copy a disk: %w", err)
	}
	defer source.Close()
	partial := to + ".partial"
	target, err := os.Create(partial)
	if err != nil {
		return fmt.Errorf("copy a disk: %w", err)
	}
	err = fill(ctx, target, source)
	if err = errors.Join(err, target.Close()); err != nil {
		return errors.Join(fmt.Errorf("copy a disk: %w", err), os.Remove(partial))
	}
	return os.Rename(partial, to)
}

func fill(ctx context.Context, target, source *os.File) error {
	if unix.IoctlFileClone(int(target.Fd()), int(source.Fd())) == nil {
		return nil
	}
	end, err := source.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if err := target.Truncate(end); err != nil {
		return err
	}
	for at := int64(0); at < end; {
		data, err := source.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil
		}
		if err != nil {
			return err
		}
		if at, err = source.Seek(data, unix.SEEK_HOLE); err != nil {
			return err
		}
		if err := copyRange(ctx, target, source, data, at); err != nil {
			return err
		}
	}
	return nil
}

func copyRange(ctx context.Context, target, source *os.File, from, to int64) error {
	in, out := from, from
	for in < to {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := unix.CopyFileRange(int(source.Fd()), &in, int(target.Fd()), &out, int(min(chunk, to-in)), 0)
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrUnexpectedEOF
		}
	}
	return nil
}
