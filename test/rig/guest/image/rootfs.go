package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	suite  = "bookworm"
	mirror = "http://deb.debian.org/debian"
)

var packages = []string{
	"openssh-server", "sudo", "dnsmasq-base", "openssl", "iproute2", "ca-certificates", "curl", "fdisk", "procps",
}

// useless is removed: the image is copied often.
var useless = []string{
	"usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian", "usr/share/bug", "usr/share/zoneinfo",
	"usr/share/perl5/Debconf", "usr/share/i18n", "usr/lib/*/gconv", "usr/lib/apt", "usr/lib/*/libapt-*", "usr/bin/apt*", "usr/share/bash-completion",
	"var/lib/apt", "var/cache/*", "var/log/*", "usr/sbin/dpkg*", "usr/share/dpkg", "usr/lib/dpkg", "var/lib/dpkg/info", "usr/bin/dpkg*",
	"etc/ssh/ssh_host_*", "boot/*", "usr/share/debconf", "usr/share/gcc", "usr/share/common-licenses", "etc/apt",
}

// rootfs returns a tar archive of a small Debian.
func (b *builder) rootfs(ctx context.Context) (string, error) {
	archive := b.path("rootfs", digest(suite, packages, useless), ".tar")
	if exists(archive) {
		return archive, nil
	}
	if err := b.install(ctx); err != nil {
		return "", err
	}
	b.log("debootstrap %s with %s", suite, strings.Join(packages, " "))
	tree := archive + ".tree"
	if err := removeTree(tree); err != nil {
		return "", err
	}
	defer removeTree(tree)
	err := b.run(ctx, "debootstrap", "--variant=minbase", "--include="+strings.Join(packages, ","), suite, tree, mirror)
	if err != nil {
		return "", fmt.Errorf("make the root file system: %w", err)
	}
	for _, pattern := range useless {
		matches, err := filepath.Glob(filepath.Join(tree, pattern))
		if err != nil {
			return "", err
		}
		for _, match := range matches {
			if err := os.RemoveAll(match); err != nil {
				return "", fmt.Errorf("trim the root file system: %w", err)
			}
		}
	}
	return archive, b.pack(ctx, archive, tree)
}

// pack archives a tree; the archive appears complete or not at all.
func (b *builder) pack(ctx context.Context, archive, tree string) error {
	err := b.run(ctx, "tar", "--create", "--sparse", "--numeric-owner", "--one-file-system", "--file", archive+".partial", "--directory", tree, ".")
	if err != nil {
		return err
	}
	return os.Rename(archive+".partial", archive)
}

// removeTree is for trees in which a program may have mounted something: it
// never crosses into a mount.
func removeTree(tree string) error {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	if strings.Contains(string(mounts), " "+tree+"/") {
		return fmt.Errorf("remove %s: something is mounted below it, unmount that first", tree)
	}
	return os.RemoveAll(tree)
}
