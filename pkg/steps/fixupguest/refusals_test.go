package fixupguest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/steps/step"
)

func TestBadGuests(t *testing.T) {
	short := 400 * time.Millisecond
	for name, row := range map[string]struct {
		fault func(*bench)
		code  int
		texts []string
	}{
		"SSH refuses":      {func(b *bench) { b.guest.Refuse = true }, step.ExitTimeout, []string{`"wait for SSH"`, "connection refused", "console"}},
		"SSH hangs":        {func(b *bench) { b.guest.Hang, b.handshake = true, 100*time.Millisecond }, step.ExitTimeout, []string{`"wait for SSH"`, "does not answer"}},
		"another key":      {func(b *bench) { b.guest.SetFile(authorizedKeys, ""); b.guest.SetFile(ignitionKeys, "") }, step.ExitUser, []string{`"wait for SSH"`, "bundleSSHKeyRef"}},
		"sudo is denied":   {func(b *bench) { b.guest.SudoDenied = true }, step.ExitUser, []string{`"lock user core"`, "sudo", "official bundle"}},
		"two file systems": {func(b *bench) { b.guest.TwoXFS = true }, step.ExitUser, []string{`"grow the root file system"`, "2 XFS"}},
		"the API never":    {func(b *bench) { b.guest.APINever = true }, step.ExitTimeout, []string{`"wait for the guest API"`, "Connection refused", "journal"}},
		"no CSR":           {func(b *bench) { b.guest.CSRNever = true }, step.ExitTimeout, []string{`"renew the certificates"`, "kubelet-client-current.pem", "no certificate request", "crcVersion"}},
		"operators never":  {func(b *bench) { b.guest.OperatorsNever = true }, step.ExitTimeout, []string{`"wait for the operators"`, "authentication (not Available)"}},
		"the MCO never":    {func(b *bench) { b.guest.MCONever = true }, step.ExitTimeout, []string{`"wait for the node's pull secret"`, "config.json does not exist", "lease"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.limit = short
			row.fault(b)
			if row.code == step.ExitTimeout && !b.guest.Refuse && !b.guest.Hang {
				b.limit = 4 * short
			}
			b.run(row.code, row.texts...)
		})
	}
}

func TestAChangedHostKeyIsRefused(t *testing.T) {
	b := newBench(t)
	if err := b.until("lock user core: begins"); err == nil {
		t.Fatal("not killed")
	}
	b.guest.NewHostKey()
	b.guest.Forget()
	b.run(step.ExitInfra, "another SSH host key", "vmi-1", "nothing was sent")
	if said := b.guest.Said(); len(said) > 0 {
		t.Errorf("commands were sent: %q", said)
	}
}

func TestASecretThatIsNotTheInstancesIsNotWritten(t *testing.T) {
	b := newBench(t)
	b.api.Put(secretPath, &corev1.Secret{})
	b.run(step.ExitUser, "does not belong to ClusterInstance demo")
	if said := b.guest.Said(); len(said) > 0 {
		t.Errorf("commands were sent: %q", said)
	}
}

func TestBadIdentities(t *testing.T) {
	for name, row := range map[string]struct {
		key, content string
		code         int
		text         string
	}{
		"no boot key":       {guestcluster.BootSSHPrivateKeyKey, "nonsense", step.ExitUser, "bundleSSHKeyRef"},
		"no pull secret":    {guestcluster.PullSecretKey, "{}", step.ExitUser, "pullSecretRef"},
		"a login without":   {guestcluster.PullSecretKey, `{"auths":{"quay.io":{}}}`, step.ExitUser, "quay.io"},
		"not its key":       {guestcluster.AdminKeyKey, "nonsense", step.ExitInfra, "no key pair"},
		"no serving CA":     {guestcluster.ServingCAKey, "nonsense", step.ExitInfra, "no certificate"},
		"no serving key":    {guestcluster.ServingKeyKey, "nonsense", step.ExitInfra, "no key pair"},
		"no instance's key": {guestcluster.SSHPrivateKeyKey, "nonsense", step.ExitInfra, "no private key"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if err := os.WriteFile(filepath.Join(b.dir, row.key), []byte(row.content), 0o600); err != nil {
				t.Fatal(err)
			}
			b.run(row.code, row.text)
		})
	}
}

// A guest has a say in the texts of errors.
func TestErrorsHoldNoCredentials(t *testing.T) {
	err := error(&plain{step.TimeoutError("the guest said token=Q2FuYXJ5")})
	if got := err.Error(); got != "the guest said token=[redacted]" || step.ExitCode(err) != step.ExitTimeout {
		t.Errorf("%q, exit code %d", got, step.ExitCode(err))
	}
}
