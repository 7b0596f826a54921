package mirror

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// convert returns a qcow2 image of a raw disk, from the cache or made now. The
// image has holes where it is zero: bundles are sparse archives.
func convert(ctx context.Context, cacheDir, raw string, log func(string, ...any)) (string, error) {
	key, err := diskKey(raw)
	if err != nil {
		return "", err
	}
	dir, err := ensure(filepath.Join(cacheDir, "disk-"+key), func(tmp string) error {
		start, image := time.Now(), filepath.Join(tmp, "crc.qcow2")
		log("convert %s to qcow2", filepath.Base(raw))
		err := run(ctx, "qemu-img", "convert", "-f", "raw", "-O", "qcow2", "-o", "lazy_refcounts=on", raw, image)
		if err != nil {
			return err
		}
		if err := run(ctx, "fallocate", "--dig-holes", image); err != nil {
			return err
		}
		about, err := os.Stat(image)
		if err != nil {
			return err
		}
		log("converted to qcow2: %d MiB in %s", about.Size()>>20, time.Since(start).Round(time.Second))
		return nil
	})
	return filepath.Join(dir, "crc.qcow2"), err
}

func run(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}
