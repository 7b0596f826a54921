package image

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
	"slices"
	"strings"
	"syscall"
	"time"

	"opdev.io/guestcluster/test/rig/builds"
)

// Parts are the files that a bundle is made of.
type Parts struct{ Disk, SSHPrivateKey, Kubeconfig, OC string }

// builder keeps layers in one directory under names with their inputs' digest.
type builder struct {
	programs builds.Builder
	cache    string
	log      func(format string, args ...any)
}

// Build makes what is missing in the cache. Processes take turns.
func Build(ctx context.Context, programs builds.Builder, cache string) (Parts, error) {
	b := &builder{programs: programs, cache: cache, log: programs.Log}
	if b.log == nil {
		b.log = func(string, ...any) {}
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return Parts{}, fmt.Errorf("make the cache: %w", err)
	}
	unlock, err := builds.Lock(filepath.Join(cache, "lock"))
	if err != nil {
		return Parts{}, err
	}
	defer unlock()
	return b.disk(ctx)
}

func (b *builder) path(kind, key, suffix string) string {
	return filepath.Join(b.cache, kind+"-"+key+suffix)
}

// tools maps a program that building needs to its Debian package.
var tools = map[string]string{
	"/usr/sbin/debootstrap": "debootstrap", "/usr/sbin/mkfs.xfs": "xfsprogs", "/usr/sbin/sfdisk": "fdisk",
	"/usr/bin/ssh-keygen": "openssh-client",
}

func (b *builder) install(ctx context.Context) error {
	var missing []string
	for file, name := range tools {
		if !exists(file) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	b.log("install Debian packages: %s", strings.Join(missing, " "))
	if err := b.run(ctx, "apt-get", "-qq", "update"); err != nil {
		return err
	}
	return b.run(ctx, "apt-get", append([]string{"-qq", "install", "-y", "--no-install-recommends"}, missing...)...)
}

// run runs a program and puts its output into the error only.
func (b *builder) run(ctx context.Context, name string, args ...string) error {
	return b.feed(ctx, nil, name, args...)
}

func (b *builder) feed(ctx context.Context, input io.Reader, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin, cmd.Env = input, append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out[max(0, len(out)-3000):])
	}
	return nil
}

// sources is a digest of the Go files that shape a layer.
func (b *builder) sources(folders ...string) (string, error) {
	var texts []string
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(b.programs.Root, "test", "rig", "guest", folder, "*.go"))
		if err != nil {
			return "", err
		}
		slices.Sort(files)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				return "", fmt.Errorf("read the builder's sources: %w", err)
			}
			texts = append(texts, filepath.Base(file), string(text))
		}
	}
	return digest(texts), nil
}

func digest(values ...any) string {
	sum := sha256.New()
	for _, value := range values {
		fmt.Fprintf(sum, "%q\n", value)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// forget removes all but the newest layers of a kind: each is large.
func (b *builder) forget(pattern string, keep int) error {
	matches, err := filepath.Glob(filepath.Join(b.cache, pattern))
	if err != nil {
		return err
	}
	age := func(file string) time.Time {
		info, err := os.Stat(file)
		if err != nil {
			return time.Time{}
		}
		return info.ModTime()
	}
	slices.SortFunc(matches, func(a, b string) int { return age(b).Compare(age(a)) })
	for _, old := range matches[min(keep, len(matches)):] {
		err = errors.Join(err, os.RemoveAll(old))
	}
	return err
}
