package gather

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
	certificatesv1 "k8s.io/api/certificates/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/steps/guest"
	"opdev.io/guestcluster/pkg/steps/step"
)

// inside is the way into the guest, or why there is none.
type inside struct {
	link *guest.Link
	door *guest.Door
	err  error
}

func (i *inside) close() {
	if i.err == nil {
		i.door.Forget()
		i.link.Close()
	}
}

// readKeys reads what opens the guest. Its errors name files, never contents.
func readKeys(dir string) ([]guest.Key, tls.Certificate, error) {
	var keys []guest.Key
	for _, name := range []string{guestcluster.SSHPrivateKeyKey, guestcluster.BootSSHPrivateKeyKey} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, tls.Certificate{}, step.InfraError("read identity: %w", err)
		}
		signer, err := ssh.ParsePrivateKey(raw)
		if err != nil {
			return nil, tls.Certificate{}, step.InfraError("identity: %s is no private key", name)
		}
		keys = append(keys, guest.Key{Name: name, Signer: signer})
	}
	admin, err := tls.LoadX509KeyPair(filepath.Join(dir, guestcluster.AdminCertKey), filepath.Join(dir, guestcluster.AdminKeyKey))
	if err != nil {
		err = step.InfraError("identity: %s and %s are no key pair", guestcluster.AdminCertKey, guestcluster.AdminKeyKey)
	}
	return keys, admin, err
}

func (g *Gatherer) guestParts() []part {
	command := func(key, line string) part {
		return part{key: key, limit: 24 << 10, newest: true, within: func(ctx context.Context, in *inside) (string, error) {
			out, err := in.link.Try(ctx, guest.Command{Doing: "gather " + key, Line: line, Timeout: g.Part})
			return string(out.Stdout), err
		}}
	}
	return []part{
		command("units.txt", "systemctl --no-pager list-units --failed --plain --no-legend; systemctl --no-pager list-units --plain --no-legend"),
		command("journal-kubelet.txt", "sudo -n journalctl --no-pager -n 200 -u kubelet"),
		command("journal-sshd.txt", "sudo -n journalctl --no-pager -n 200 -u sshd"),
		{key: "clusteroperators.txt", limit: 24 << 10, within: operators},
		{key: "certificaterequests.txt", limit: 16 << 10, within: requests},
	}
}

// operators lists the conditions of the guest's cluster operators.
func operators(ctx context.Context, in *inside) (string, error) {
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct {
				Conditions []struct{ Type, Status, Reason, Message string }
			}
		}
	}
	if err := in.get(ctx, "/apis/config.openshift.io/v1/clusteroperators", &list); err != nil {
		return "", err
	}
	var text strings.Builder
	for _, o := range list.Items {
		for _, c := range o.Status.Conditions {
			fmt.Fprintf(&text, "%s %s=%s %s: %.300s\n", o.Metadata.Name, c.Type, c.Status, c.Reason, c.Message)
		}
	}
	return text.String(), nil
}

// requests lists who asked for which certificate, without the requests themselves.
func requests(ctx context.Context, in *inside) (string, error) {
	var list certificatesv1.CertificateSigningRequestList
	if err := in.get(ctx, "/apis/certificates.k8s.io/v1/certificatesigningrequests", &list); err != nil {
		return "", err
	}
	var text strings.Builder
	for _, c := range list.Items {
		conditions, _ := json.Marshal(c.Status.Conditions)
		fmt.Fprintf(&text, "%s %s by %s: issued %t, %s\n", c.Name, c.Spec.SignerName, c.Spec.Username, len(c.Status.Certificate) > 0, conditions)
	}
	return text.String(), nil
}

func (i *inside) get(ctx context.Context, path string, into any) error {
	api, err := i.door.API(ctx)
	if err != nil {
		return err
	}
	return api.Get(ctx, path, into)
}
