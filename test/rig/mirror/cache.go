package mirror

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"opdev.io/guestcluster/test/rig/builds"
)

// keep is how long a result stays in the cache after its last use.
const keep = 3 * 24 * time.Hour

// ensure returns dir, which make fills as a folder that is renamed to it when
// complete: what is killed half-way leaves nothing that looks ready.
func ensure(dir string, fill func(tmp string) error) (string, error) {
	unlock, err := builds.Lock(dir + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		now := time.Now()
		return dir, os.Chtimes(dir, now, now)
	}
	tmp := dir + ".partial"
	if err := errors.Join(os.RemoveAll(tmp), os.MkdirAll(tmp, 0o755)); err != nil {
		return "", fmt.Errorf("prepare the cache: %w", err)
	}
	if err := fill(tmp); err != nil {
		return "", errors.Join(err, os.RemoveAll(tmp))
	}
	return dir, os.Rename(tmp, dir)
}

// prune removes results that nobody used for long.
func prune(cacheDir string, now time.Time) error {
	entries, err := os.ReadDir(cacheDir)
	if err != nil {
		return fmt.Errorf("list the cache: %w", err)
	}
	for _, entry := range entries {
		about, err := entry.Info()
		if err != nil || !entry.IsDir() || strings.HasSuffix(entry.Name(), ".partial") || now.Sub(about.ModTime()) < keep {
			continue
		}
		if err := os.RemoveAll(filepath.Join(cacheDir, entry.Name())); err != nil {
			return fmt.Errorf("prune the cache: %w", err)
		}
	}
	return nil
}

// diskKey tells a disk by what changes when it is written. Reading it all
// would take longer than everything else that finds a bundle in the cache.
func diskKey(name string) (string, error) {
	about, err := os.Stat(name)
	if err != nil {
		return "", fmt.Errorf("look at the disk: %w", err)
	}
	return digest(format, name, about.Size(), about.ModTime().UnixNano()), nil
}

// bundleKey covers all that shapes a bundle.
func bundleKey(disk string, parts Parts, o Options) (string, error) {
	var sums []any
	for _, name := range []string{parts.SSHPrivateKey, parts.Kubeconfig, parts.OC} {
		_, sum, err := measure(name)
		if err != nil {
			return "", err
		}
		sums = append(sums, sum)
	}
	return digest(append(sums, format, disk, o.Name(), o.BuildTime.Unix(), o.Level)...), nil
}

// format changes when bundles of the same parts come out differently.
const format = 1

func digest(values ...any) string {
	sum := sha256.New()
	for _, value := range values {
		fmt.Fprintln(sum, value)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
}

// copyFile copies small files; links serve for large ones.
func copyFile(to, from string, mode os.FileMode) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("copy a member: %w", err)
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return fmt.Errorf("copy a member: %w", err)
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close(), os.Chmod(to, mode))
}
