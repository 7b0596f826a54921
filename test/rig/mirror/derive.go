package mirror

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"opdev.io/guestcluster/test/rig/guest"
)

// Derive returns a copy of the guest's raw disk that reports another version,
// from the cache or made now. It needs root.
func Derive(ctx context.Context, cacheDir, disk, version string) (string, error) {
	key, err := diskKey(disk)
	if err != nil {
		return "", err
	}
	about, err := os.Stat(disk)
	if err != nil {
		return "", err
	}
	dir, err := ensure(filepath.Join(cacheDir, "raw-"+version+"-"+key), func(tmp string) error {
		target := filepath.Join(tmp, "disk.img")
		if err := guest.Copy(ctx, target, disk); err != nil {
			return err
		}
		err := guest.Customize(ctx, target, guest.Settings{Version: version})
		return errors.Join(err, os.Chtimes(target, time.Time{}, about.ModTime()))
	})
	return filepath.Join(dir, "disk.img"), err
}
