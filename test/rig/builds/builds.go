package builds

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Builder compiles programs of the repository at Root into Cache.
type Builder struct {
	Root  string
	Cache string
	// Log tells about work that takes long; nil is silent.
	Log func(format string, args ...any)
}

// New finds the repository around the working directory and the cache that
// RIG_CACHE or the user's cache directory names.
func New() (Builder, error) {
	root, err := findRoot()
	if err != nil {
		return Builder{}, err
	}
	cache := os.Getenv("RIG_CACHE")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return Builder{}, fmt.Errorf("find the cache directory: %w (set RIG_CACHE)", err)
		}
		cache = filepath.Join(home, ".cache", "guestcluster-rig")
	}
	return Builder{Root: root, Cache: cache}, nil
}

// Ensure returns the directory that holds the program and its links, and
// compiles it first when no earlier result has the same key.
func (b Builder) Ensure(ctx context.Context, p Program) (string, error) {
	key, err := b.key(p)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(b.Cache, "bin", p.Name+"-"+key)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	unlock, err := Lock(dir + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	return dir, b.build(ctx, p, dir)
}

func (b Builder) build(ctx context.Context, p Program, dir string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	start := time.Now()
	b.log("compile %s", p.Name)
	tmp := dir + ".partial"
	if err := errors.Join(os.RemoveAll(tmp), os.MkdirAll(tmp, 0o755)); err != nil {
		return fmt.Errorf("prepare the build of %s: %w", p.Name, err)
	}
	args := append([]string{"build", "-trimpath", "-buildvcs=false", "-mod=readonly"}, p.Flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "-o", filepath.Join(tmp, p.Name), p.Package)...)
	cmd.Dir = b.moduleDir(p)
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED="+map[bool]string{true: "1", false: "0"}[p.Cgo])
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile %s in %s: %w\n%s", p.Name, cmd.Dir, err, out)
	}
	for _, link := range p.Links {
		if err := os.Symlink(p.Name, filepath.Join(tmp, link)); err != nil {
			return fmt.Errorf("link %s: %w", link, err)
		}
	}
	if err := os.Rename(tmp, dir); err != nil {
		return fmt.Errorf("keep %s: %w", p.Name, err)
	}
	b.log("compiled %s in %s", p.Name, time.Since(start).Round(time.Second))
	return nil
}

// key covers what decides the result: toolchain, flags and the module's files.
func (b Builder) key(p Program) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version(), runtime.GOARCH, p.Package, p.Flags, p.Cgo, p.Links)
	files, err := filepath.Glob(filepath.Join(b.moduleDir(p), "*"))
	if err != nil {
		return "", fmt.Errorf("list the module of %s: %w", p.Name, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		if err := addFile(sum, file); err != nil {
			return "", fmt.Errorf("read the module of %s: %w", p.Name, err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:12], nil
}

func (b Builder) moduleDir(p Program) string {
	return filepath.Join(b.Root, "test", "rig", p.Module)
}

func (b Builder) log(format string, args ...any) {
	if b.Log != nil {
		b.Log(format, args...)
	}
}

func addFile(w io.Writer, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	fmt.Fprintln(w, filepath.Base(name))
	_, err = io.Copy(w, f)
	return err
}

// Lock serialises work on one cached result across processes; the file at name
// stands for it. Unlock with what it returns.
func Lock(name string) (func(), error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, fmt.Errorf("make the cache: %w (set RIG_CACHE to a writable directory)", err)
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the cache: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the cache: %w", err), f.Close())
	}
	return func() { f.Close() }, nil
}

func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "test", "rig", "third_party")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("find the repository: run this inside the Guestcluster source tree")
		}
		dir = parent
	}
}
