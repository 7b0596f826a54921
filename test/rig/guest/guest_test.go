package guest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"opdev.io/guestcluster/test/rig/guest"
)

// patience bounds every wait: the machine may be busy.
const patience = 3 * time.Minute

// machine is a guest under test with the means to talk to it.
type machine struct {
	*guest.Guest
	t      *testing.T // of the running subtest
	whole  *testing.T // of the guest's life
	parts  guest.Parts
	disk   string
	signer ssh.Signer
	// hostKey is what the guest showed first; nil before that.
	hostKey ssh.PublicKey
}

// boot starts a guest from a new copy of the pristine disk.
func boot(t *testing.T, faults ...string) *machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("run as root: a guest has mounts and namespaces of its own")
	}
	parts, err := guest.Build(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, whole: t, parts: parts, disk: filepath.Join(t.TempDir(), "disk.img"), signer: readKey(t, parts.SSHPrivateKey)}
	if err := guest.Copy(t.Context(), m.disk, parts.Disk); err != nil {
		t.Fatal(err)
	}
	m.start(faults...)
	return m
}

func (m *machine) start(faults ...string) {
	m.t.Helper()
	g, err := guest.Start(m.t.Context(), guest.Options{Disk: m.disk, Name: m.t.Name(), Faults: faults})
	if err != nil {
		m.t.Fatal(err)
	}
	m.Guest = g
	m.whole.Cleanup(func() {
		if m.whole.Failed() {
			m.whole.Logf("console:\n%s", g.Console())
		}
		if err := g.Stop(); err != nil {
			m.whole.Error(err)
		}
	})
}

func readKey(t *testing.T, file string) ssh.Signer {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey(data)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// dial makes one attempt to log in as core.
func (m *machine) dial(key ssh.Signer) (*ssh.Client, error) {
	return ssh.Dial("tcp", m.Address+":22", &ssh.ClientConfig{
		User: "core", Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, Timeout: 10 * time.Second,
		HostKeyCallback: m.pinHostKey, HostKeyAlgorithms: []string{ssh.KeyAlgoED25519},
	})
}

func (m *machine) pinHostKey(_ string, _ net.Addr, key ssh.PublicKey) error {
	if m.hostKey == nil {
		m.hostKey = key
	}
	if !bytes.Equal(m.hostKey.Marshal(), key.Marshal()) {
		return errors.New("the guest shows another host key than before")
	}
	return nil
}

// login waits for sshd.
func (m *machine) login() *ssh.Client {
	m.t.Helper()
	var client *ssh.Client
	m.eventually("log in", func() (err error) {
		client, err = m.dial(m.signer)
		return err
	})
	m.whole.Cleanup(func() { client.Close() })
	return client
}

// run runs a command in the guest and returns what it prints.
func (m *machine) run(client *ssh.Client, command string) (string, error) {
	m.t.Helper()
	session, err := client.NewSession()
	if err != nil {
		return "", fmt.Errorf("open a session: %w", err)
	}
	defer session.Close()
	out, err := session.CombinedOutput(command)
	return strings.TrimSpace(string(out)), err
}

func (m *machine) must(client *ssh.Client, command string) string {
	m.t.Helper()
	out, err := m.run(client, command)
	if err != nil {
		m.t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return out
}

// eventually repeats check until it has no complaint.
func (m *machine) eventually(what string, check func() error) {
	m.t.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	m.t.Fatalf("%s: %v\nconsole:\n%s", what, err, m.Console())
}

// config is the installer's kubeconfig, from outside the guest.
func (m *machine) config() *rest.Config {
	m.t.Helper()
	data, err := os.ReadFile(m.parts.Kubeconfig)
	if err != nil {
		m.t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		m.t.Fatal(err)
	}
	if config.Host != "https://api.crc.testing:6443" {
		m.t.Errorf("the kubeconfig's server is %s", config.Host)
	}
	config.Host, config.ServerName = "https://"+m.Address+":6443", "api.crc.testing"
	config.QPS, config.Burst, config.Timeout = 100, 100, 15*time.Second
	return config
}

func TestLoginFaults(t *testing.T) {
	t.Run("a guest that refuses closes the port", func(t *testing.T) {
		m := boot(t, "ssh-refuse")
		m.eventually("wait for the boot", func() error {
			if !strings.Contains(m.Console(), "booted") {
				return fmt.Errorf("not booted yet")
			}
			return nil
		})
		if _, err := m.dial(m.signer); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("got %v, want connection refused", err)
		}
	})
	t.Run("sudo can be denied, and a reset brings new host keys", func(t *testing.T) {
		m := boot(t, "sudo-denied", "ssh-new-host-key")
		client := m.login()
		if out, err := m.run(client, "sudo -n id"); err == nil {
			t.Errorf("sudo worked: %s", out)
		}
		before := m.must(client, "cat /etc/ssh/ssh_host_ed25519_key.pub")
		if err := m.Reboot(t.Context()); err != nil {
			t.Fatal(err)
		}
		m.hostKey = nil
		if after := m.must(m.login(), "cat /etc/ssh/ssh_host_ed25519_key.pub"); after == before {
			t.Error("the host key is the same after the reset")
		}
	})
	t.Run("another key is authorized", func(t *testing.T) {
		m := boot(t, "ssh-other-key")
		m.eventually("be refused by sshd", func() error {
			_, err := m.dial(m.signer)
			if err == nil || !strings.Contains(err.Error(), "unable to authenticate") {
				return fmt.Errorf("got %w", err)
			}
			return nil
		})
	})
	t.Run("sessions end with their first command", func(t *testing.T) {
		m := boot(t, "ssh-drop=60")
		client := m.login()
		m.must(client, "sleep 0.2")
		m.eventually("lose the connection", func() error {
			if _, err := m.run(client, "true"); err != nil {
				return nil
			}
			return fmt.Errorf("it still works")
		})
	})
}

func TestDiskGrows(t *testing.T) {
	m := boot(t)
	client := m.login()
	if out, err := m.run(client, "sudo /usr/bin/growpart /dev/vda 4"); err == nil || !strings.HasPrefix(out, "NOCHANGE") {
		t.Errorf("growpart on the pristine disk: %v, %s", err, out)
	}
	if err := m.PowerOff(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(m.disk, 40<<30); err != nil {
		t.Fatal(err)
	}
	m.start()
	client = m.login()
	if device := m.must(client, "/usr/sbin/blkid -t TYPE=xfs -o device"); device != "/dev/vda4" {
		t.Errorf("blkid prints %q", device)
	}
	out := m.must(client, "sudo /usr/bin/growpart /dev/vda 4 && sudo mount -o remount,rw /sysroot && sudo xfs_growfs /sysroot && df --output=size -BG / | tail -1")
	if !strings.HasSuffix(out, "40G") {
		t.Errorf("the root file system did not grow: %s", out)
	}
	if err := m.Reboot(context.Background()); err != nil {
		t.Fatal(err)
	}
	client = m.login()
	if out, err := m.run(client, "sudo growpart /dev/vda 4"); err == nil {
		t.Errorf("growpart found more to do after the reset: %s", out)
	}
	if size := m.must(client, "df --output=size -BG / | tail -1"); size != "40G" {
		t.Errorf("after the reset the root has %s", size)
	}
}
