package fixupguest

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// margin is how long a certificate must still live to count as fresh.
const margin = 5 * time.Minute

// dated are the certificates that expire while a bundle lies on a shelf.
var dated = []struct{ name, file string }{
	{"the kubelet's client certificate", "/var/lib/kubelet/pki/kubelet-client-current.pem"},
	{"the kubelet's serving certificate", "/var/lib/kubelet/pki/kubelet-server-current.pem"},
	{"the aggregator's client certificate", "/etc/kubernetes/static-pod-resources/kube-apiserver-certs/secrets/aggregator-client/tls.crt"},
}

// readDates tells people what has to be renewed.
func (f *fixup) readDates(ctx context.Context) error {
	stale, err := f.stale(ctx)
	if err != nil {
		return err
	}
	for _, s := range stale {
		fmt.Fprintln(f.out, s)
	}
	return nil
}

// waitForDates waits for the kubelet and the operators to renew what expired;
// the approver signs meanwhile.
func (f *fixup) waitForDates(ctx context.Context) error {
	stale, err := f.stale(ctx)
	if err != nil {
		return err
	}
	if len(stale) > 0 {
		return fmt.Errorf("%s; %s", strings.Join(stale, ", "), f.approved.text())
	}
	return nil
}

// stale lists the certificates that are not fresh, with their dates.
func (f *fixup) stale(ctx context.Context) ([]string, error) {
	var found []string
	for _, c := range dated {
		raw, err := f.link.Certificates(ctx, c.file)
		if errors.Is(err, fs.ErrNotExist) {
			found = append(found, fmt.Sprintf("%s (%s) does not exist", c.name, c.file))
			continue
		}
		if err != nil {
			return nil, err
		}
		end, err := expiry(raw)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", c.file, err)
		}
		if end.Before(f.Now().Add(margin)) {
			found = append(found, fmt.Sprintf("%s (%s) is good until %s only", c.name, c.file, end.UTC().Format(time.RFC3339)))
		}
	}
	return found, nil
}

// expiry is when the first certificate of a PEM text ends.
func expiry(raw []byte) (time.Time, error) {
	block, _ := pem.Decode(raw)
	if block == nil {
		return time.Time{}, errors.New("no certificate in it")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}, err
	}
	return certificate.NotAfter, nil
}
