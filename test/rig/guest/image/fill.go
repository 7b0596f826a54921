package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"opdev.io/guestcluster/test/rig/builds"
	"opdev.io/guestcluster/test/rig/guest/cluster"
	"opdev.io/guestcluster/test/rig/guest/daemon"
)

// contents is what goes into the root file system.
type contents struct {
	rootfs     string
	parked     parked
	guestd, oc string
}

// file is one that is written as it stands.
type file struct {
	path string
	mode os.FileMode
	text string
}

const sshd = `# As RHCOS configures it, where it matters.
HostKey /etc/ssh/ssh_host_ed25519_key
HostKey /etc/ssh/ssh_host_ecdsa_key
AuthorizedKeysFile .ssh/authorized_keys .ssh/authorized_keys.d/ignition
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin no
AllowTcpForwarding yes
UsePAM yes
UseDNS no
MaxStartups 100:30:200
Subsystem sftp /usr/lib/openssh/sftp-server
`

var files = []file{
	{"etc/hostname", 0o644, "crc\n"},
	{"etc/hosts", 0o644, "127.0.0.1 localhost crc\n::1 localhost\n"},
	{"etc/resolv.conf", 0o644, ""},
	{"etc/ssh/sshd_config", 0o600, sshd},
	{"etc/sudoers.d/coreos-sudo-group", 0o440, "%sudo ALL=(ALL) NOPASSWD: ALL\n"},
	{"etc/dnsmasq.conf", 0o644, "user=dnsmasq\nbind-interfaces\nconf-dir=/etc/dnsmasq.d,.rpmnew,.rpmsave,.rpmorig\n"},
	{"etc/os-release", 0o644, "NAME=\"Red Hat Enterprise Linux CoreOS\"\nID=\"rhcos\"\nVARIANT_ID=coreos\nPRETTY_NAME=\"Guestcluster's rig guest\"\n"},
	{"etc/systemd/system/kubelet.service.d/80-nodeip.conf", 0o644, "[Service]\nEnvironment=\"KUBELET_NODE_IP=192.168.126.11\" \"KUBELET_NODE_IPS=192.168.126.11\"\n"},
	{"etc/rig/version", 0o644, cluster.DefaultVersion + "\n"},
	{"etc/rig/faults", 0o644, "# one fault per line\n"},
	{"etc/pam.d/sshd", 0o644, "auth include common-auth\naccount include common-account\nsession include common-session-noninteractive\n"},
}

var directories = []string{
	"sysroot", "etc/sysconfig", "etc/dnsmasq.d", "etc/NetworkManager/system-connections", "var/log/units", "var/lib/kubelet",
	"usr/lib/systemd/system", "etc/systemd/system/multi-user.target.wants", "opt/crc",
}

// services have a unit file; the enabled ones start at boot.
var services = map[string]bool{
	"NetworkManager.service": true, "sshd.service": true, "chronyd.service": true,
	"dnsmasq.service": false, "kubelet.service": false, "ovs-configuration.service": false,
}

func (b *builder) fill(ctx context.Context, root string, c contents) error {
	for _, archive := range []string{c.rootfs, c.parked.file("files.tar")} {
		if err := b.run(ctx, "tar", "--extract", "--preserve-permissions", "--numeric-owner", "--file", archive, "--directory", root); err != nil {
			return err
		}
	}
	for _, dir := range directories {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := write(root, f); err != nil {
			return err
		}
	}
	return errors.Join(b.installPrograms(ctx, root, c), installServices(root), b.addCore(ctx, root, c.parked))
}

func write(root string, f file) error {
	target := filepath.Join(root, f.path)
	_ = os.Remove(target)
	if err := errors.Join(os.MkdirAll(filepath.Dir(target), 0o755), os.WriteFile(target, []byte(f.text), f.mode), os.Chmod(target, f.mode)); err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	return nil
}

func (b *builder) installPrograms(ctx context.Context, root string, c contents) error {
	kube, err := b.programs.Ensure(ctx, builds.Kube)
	if err != nil {
		return err
	}
	etcd, err := b.programs.Ensure(ctx, builds.Etcd)
	if err != nil {
		return err
	}
	for _, p := range []struct{ from, to string }{
		{filepath.Join(kube, "kube"), "usr/bin/kube"}, {filepath.Join(etcd, "etcd"), "usr/bin/etcd"},
		{c.guestd, "usr/local/sbin/guestd"}, {c.oc, "usr/bin/oc"},
	} {
		if err := b.run(ctx, "cp", p.from, filepath.Join(root, p.to)); err != nil {
			return err
		}
	}
	links := map[string]string{"usr/bin/kubectl": "kube"}
	for _, name := range daemon.Names() {
		links["usr/sbin/"+name] = "/usr/local/sbin/guestd"
		links["usr/bin/"+name] = "/usr/local/sbin/guestd"
	}
	for link, target := range links {
		_ = os.Remove(filepath.Join(root, link))
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			return err
		}
	}
	return nil
}

func installServices(root string) error {
	for name, enabled := range services {
		text := "[Unit]\nDescription=" + name + "\n[Install]\nWantedBy=multi-user.target\n"
		if err := write(root, file{"usr/lib/systemd/system/" + name, 0o644, text}); err != nil {
			return err
		}
		if !enabled {
			continue
		}
		if err := os.Symlink("/usr/lib/systemd/system/"+name, filepath.Join(root, "etc/systemd/system/multi-user.target.wants", name)); err != nil {
			return err
		}
	}
	return nil
}

// addCore makes the user with the bundle's key in both files that sshd reads.
func (b *builder) addCore(ctx context.Context, root string, p parked) error {
	public, err := os.ReadFile(p.file("id_ecdsa_crc.pub"))
	if err != nil {
		return err
	}
	if err := b.run(ctx, "chroot", root, "useradd", "--uid", "1000", "--create-home", "--shell", "/bin/bash", "--groups", "sudo,adm", "core"); err != nil {
		return err
	}
	for _, f := range []file{
		{"home/core/.ssh/authorized_keys", 0o600, string(public)},
		{"home/core/.ssh/authorized_keys.d/ignition", 0o600, string(public)},
	} {
		if err := write(root, f); err != nil {
			return err
		}
	}
	return b.run(ctx, "chroot", root, "sh", "-c", "chmod 700 /home/core/.ssh /home/core/.ssh/authorized_keys.d; chown -R core:core /home/core")
}
