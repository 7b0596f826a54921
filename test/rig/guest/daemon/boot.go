package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"opdev.io/guestcluster/test/rig/guest/cluster"
	"opdev.io/guestcluster/test/rig/guest/faults"
)

const (
	marker   = "/var/lib/rig/booted"
	crcEnv   = "/etc/sysconfig/crc-env"
	sudoers  = "/etc/sudoers.d/coreos-sudo-group"
	coreKeys = "/home/core/.ssh/authorized_keys"
)

// firstBoot does once per disk what depends on its version and faults.
func (d *daemon) firstBoot() error {
	if _, err := os.Stat(marker); err == nil {
		return nil
	}
	var err error
	if validity := d.faults[faults.Certs]; validity != "" {
		err = cluster.Root("/").SetValidity(cluster.Validity(validity))
	}
	err = errors.Join(err, d.selfSufficient(), os.MkdirAll(filepath.Dir(marker), 0o755), os.WriteFile(marker, nil, 0o644))
	if err != nil {
		return fmt.Errorf("first boot: %w", err)
	}
	return nil
}

// selfSufficient lays out what bundles of the version bring for starting by
// themselves: nothing before 4.18, units in 4.18, units switched off from 4.20.
func (d *daemon) selfSufficient() error {
	version, err := os.ReadFile("/" + cluster.VersionFile)
	if v := d.faults[faults.Version]; v != "" {
		version = []byte(v)
	} else if err != nil {
		version = []byte(cluster.DefaultVersion)
	}
	words := strings.Split(string(version), ".")
	minor := 0
	if len(words) > 1 {
		minor, _ = strconv.Atoi(words[1])
	}
	if minor >= 18 {
		err = os.WriteFile("/usr/local/bin/crc-self-sufficient-env.sh", []byte("#!/bin/bash\n. "+crcEnv+"\n"), 0o755)
	} else {
		err = nil
	}
	if minor >= 20 {
		err = errors.Join(err, os.WriteFile(crcEnv, []byte("CRC_SELF_SUFFICIENT=0\n"), 0o644))
	}
	return err
}

// prepare makes the state that only lasts until the next boot.
func (d *daemon) prepare() error {
	for _, dir := range []string{"/run/sshd", "/run/lock", "/run/systemd", "/run/podman", "/run/NetworkManager/system-connections", "/var/log/units"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("prepare %s: %w", dir, err)
		}
	}
	if err := d.hostKeys(); err != nil {
		return err
	}
	if d.faults.Has(faults.SSHOtherKey) {
		if err := d.replaceCoreKeys(); err != nil {
			return err
		}
	}
	if d.faults.Has(faults.SudoDenied) {
		return os.RemoveAll(sudoers)
	}
	return nil
}

func (d *daemon) hostKeys() error {
	for _, kind := range []string{"ed25519", "ecdsa"} {
		file := "/etc/ssh/ssh_host_" + kind + "_key"
		_, err := os.Stat(file)
		if err == nil && !d.faults.Has(faults.SSHNewHostKey) {
			continue
		}
		_ = os.Remove(file)
		if out, err := exec.CommandContext(d.ctx, "ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "", "-f", file).CombinedOutput(); err != nil {
			return fmt.Errorf("make the %s host key: %w: %s", kind, err, out)
		}
	}
	return nil
}

// replaceCoreKeys authorizes a key that nobody has.
func (d *daemon) replaceCoreKeys() error {
	file := "/run/rig/other_key"
	if out, err := exec.CommandContext(d.ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file).CombinedOutput(); err != nil {
		return fmt.Errorf("make another key: %w: %s", err, out)
	}
	public, err := os.ReadFile(file + ".pub")
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(coreKeys, public, 0o600), os.RemoveAll(coreKeys+".d/ignition"))
}
