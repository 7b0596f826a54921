package crc_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	step "opdev.io/guestcluster/pkg/steps/guest"
	steps "opdev.io/guestcluster/pkg/steps/step"
)

// enough is for a machine that does much else.
const enough = 6 * time.Minute

func exitCode(err error) int { return steps.ExitCode(err) }

// link is a way into the guest as the instance.
func (w *world) link(key string) *step.Link {
	w.Helper()
	raw, err := os.ReadFile(filepath.Join(w.dir, key))
	if err != nil {
		w.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey(raw)
	if err != nil {
		w.Fatal(err)
	}
	f := w.fixer(enough)
	link := step.NewLink(&step.Dialer{
		Locator: w, Dial: f.Dial, Keys: []step.Key{{Name: key, Signer: signer}},
		Pins: &step.Pins{Secrets: f.Secrets, Secret: f.KubeconfigSecret, Instance: f.Instance},
	})
	w.Cleanup(link.Close)
	return link
}

// in runs a command in the guest until it succeeds and prints a text.
func (w *world) in(link *step.Link, line, want string) {
	w.Helper()
	var out []byte
	var err error
	for end := time.Now().Add(enough); time.Now().Before(end); {
		if out, err = link.Run(w.Context(), step.Command{Doing: line, Line: line}); err == nil && strings.Contains(string(out), want) {
			return
		}
		select {
		case <-w.Context().Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
	w.Fatalf("%s in the guest: %q, %v; want %q", line, out, err, want)
}

// A disk whose certificates expired long ago becomes a cluster of its own, the
// second run has nothing to do, and the cluster comes back after a reboot.
func TestAnExpiredDiskBecomesAClusterThatSurvivesAReboot(t *testing.T) {
	w := newWorld(t, "certs=expired", "csr-foreign")
	w.run(w.fixer(enough), 0, "")
	t.Logf("phases:\n%s", w.seconds())
	w.run(w.fixer(enough), 0, "")
	link := w.link(guestcluster.SSHPrivateKeyKey)
	w.in(link, "cat /etc/resolv.conf", "nameserver 10.0.2.2\nnameserver 10.0.2.1\n")
	w.in(link, "sudo -n systemctl restart NetworkManager.service && cat /etc/resolv.conf", "nameserver 10.0.2.2\nnameserver 10.0.2.1\n")
	w.in(link, "printf users=; sudo -n oc get secret htpass-secret -n openshift-config --kubeconfig /opt/kubeconfig -o go-template='{{base64decode .data.htpasswd}}' | cut -d: -f1 | tr '\\n' ,", "users=kubeadmin,")
	if err := w.guest.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.in(link, "sudo -n oc get nodes --kubeconfig /opt/kubeconfig -o jsonpath='{.items[0].status.conditions[?(@.type==\"Ready\")].status}'", "True")
	w.run(w.fixer(enough), 0, "")
	if _, err := w.link(guestcluster.BootSSHPrivateKeyKey).Run(t.Context(), step.Command{Doing: "log in", Line: "exit 0"}); err == nil {
		t.Error("the bundle's key opens the guest after a reboot")
	}
}

// The pod is killed after every second phase; each time a fresh process goes on.
// The unit tests kill it after all.
func TestAStepThatIsKilledAgainAndAgainGoesOn(t *testing.T) {
	w := newWorld(t, "certs=near", "ssh-drop=5")
	for n := 1; ; n += 2 {
		ctx, cancel := context.WithCancel(t.Context())
		f := w.fixer(enough)
		f.Progress = &killer{buffer: w.out, after: n, kill: cancel}
		err := f.Run(ctx)
		cancel()
		if err == nil {
			break
		}
		if exitCode(err) != steps.ExitInterrupted || !strings.Contains(err.Error(), "interrupted by a signal") {
			t.Fatalf("killed after phase %d: %v", n, err)
		}
	}
	w.run(w.fixer(enough), 0, "")
	w.in(w.link(guestcluster.SSHPrivateKeyKey), "systemctl is-enabled kubelet", "enabled")
}

// killer cuts the context when so many phases are done.
type killer struct {
	*buffer
	after, seen int
	kill        func()
}

func (k *killer) Write(p []byte) (int, error) {
	if strings.Contains(string(p), ": done in ") {
		if k.seen++; k.seen == k.after {
			k.kill()
		}
	}
	return k.buffer.Write(p)
}

func TestGuestsThatCannotBeEnteredSayWhy(t *testing.T) {
	for _, row := range []struct {
		faults []string
		code   int
		text   string
	}{
		{[]string{"ssh-hang"}, steps.ExitTimeout, "does not answer"},
		{[]string{"ssh-refuse"}, steps.ExitTimeout, "connection refused"},
		{[]string{"ssh-other-key"}, steps.ExitUser, "bundleSSHKeyRef"},
		{[]string{"sudo-denied"}, steps.ExitUser, "may not use sudo"},
		{[]string{"two-xfs"}, steps.ExitUser, "XFS file systems"},
	} {
		t.Run(fmt.Sprint(row.faults), func(t *testing.T) {
			w := newWorld(t, row.faults...)
			f := w.fixer(enough)
			if row.code == steps.ExitTimeout {
				f.Limit = only("wait for SSH", 8*time.Second)
			}
			w.run(f, row.code, row.text)
		})
	}
}

// One disk meets one trouble after the other. Each time it is named, what can
// be known is gathered, and the next start goes on with the same disk.
func TestGuestsThatDoNotBecomeAClusterSayWhy(t *testing.T) {
	w := newWorld(t, "certs=expired", "api-never")
	for _, row := range []struct{ fault, phase, text, file, holds string }{
		{"api-never", "wait for the guest API", "Connection refused", "clusteroperators.txt", "not gathered"},
		{"csr-never", "renew the certificates", "no certificate request of the kubelet", "certificaterequests.txt", ""},
		{"mco-never", "wait for the node's pull secret", "stale leader lease", "clusteroperators.txt", "machine-config Available=True"},
		{"operators-never", "wait for the operators", "authentication (not Available)", "clusteroperators.txt", "authentication Degraded=True"},
	} {
		switch row.fault {
		case "api-never": // it runs
		case "csr-never": // the operator must not be done before its turn
			w.restart(row.fault, "mco-never")
		default:
			w.restart(row.fault)
		}
		f := w.fixer(enough)
		f.Limit = only(row.phase, 8*time.Second)
		w.run(f, steps.ExitTimeout, row.text)
		if gathered := w.gather(); !strings.Contains(gathered[row.file], row.holds) || !strings.Contains(gathered["journal-sshd.txt"], "publickey") {
			t.Errorf("%s: gathered %q", row.fault, gathered)
		}
	}
	w.restart()
	w.run(w.fixer(enough), 0, "")
}

// only limits one phase.
func only(phase string, limit time.Duration) func(string) time.Duration {
	return func(name string) time.Duration {
		if name == phase {
			return limit
		}
		return 0
	}
}

func TestAHostKeyThatChangesIsRefused(t *testing.T) {
	w := newWorld(t, "ssh-new-host-key")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := w.fixer(enough)
	f.Progress = &killer{buffer: w.out, after: 1, kill: cancel}
	if err := f.Run(ctx); err == nil {
		t.Fatal("not killed")
	}
	if err := w.guest.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.run(w.fixer(enough), steps.ExitInfra, "another SSH host key")
}
