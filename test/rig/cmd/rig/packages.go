package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// needs maps a file that the rig uses to the Debian package that has it.
var needs = map[string]string{
	"/usr/include/seccomp.h":             "libseccomp-dev",
	"/usr/bin/gcc":                       "gcc",
	"/usr/bin/pkg-config":                "pkg-config",
	"/usr/include/stdlib.h":              "libc6-dev",
	"/usr/bin/git":                       "git",
	"/usr/lib/cni/bridge":                "containernetworking-plugins",
	"/usr/sbin/nft":                      "nftables",
	"/usr/sbin/iptables":                 "iptables",
	"/usr/sbin/conntrack":                "conntrack",
	"/usr/sbin/ip":                       "iproute2",
	"/usr/bin/qemu-img":                  "qemu-utils",
	"/usr/bin/zstd":                      "zstd",
	"/etc/ssl/certs/ca-certificates.crt": "ca-certificates",
}

func (r *rig) installPackages(ctx context.Context) error {
	var missing []string
	for file, name := range needs {
		if _, err := os.Stat(file); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	r.log("install Debian packages: %s", strings.Join(missing, " "))
	install := append([]string{"install", "-y", "--no-install-recommends"}, missing...)
	for _, args := range [][]string{{"update"}, install} {
		cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-qq"}, args...)...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s(install these packages by hand: %s)", args[0], err, out, strings.Join(missing, " "))
		}
	}
	return nil
}
