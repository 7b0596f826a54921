package mirror_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"opdev.io/guestcluster/pkg/steps/bundle"
	"opdev.io/guestcluster/pkg/steps/bundle/qcow2"
	"opdev.io/guestcluster/test/rig/mirror"
	"opdev.io/guestcluster/test/rig/pki"
)

// TestTheProductRefusesWhatItMust meets every odd bundle with the code of
// prepare-bundle. The silent server is left to the rig: that takes a minute.
func TestTheProductRefusesWhatItMust(t *testing.T) {
	address, authority := listen(t)
	for _, odd := range mirror.Odds {
		if odd.Fault == "stall" {
			continue
		}
		t.Run(odd.Version+" "+odd.What, func(t *testing.T) {
			t.Parallel()
			arch := odd.Arch
			if arch == "" {
				arch = "amd64"
			}
			source := bundle.Source{Version: odd.Version, Arch: arch, CABundle: authority, MaxBundleSize: "1Gi"}
			client, err := bundle.NewMirror(source, io.Discard, wait.Backoff{Duration: time.Millisecond, Steps: 10}, time.Now,
				func(ctx context.Context, network, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, network, address)
				})
			if err != nil {
				t.Fatal(err)
			}
			err = fetch(t, client)
			if t.Log(err); (err != nil) != odd.Refused {
				t.Errorf("refused is to be %v: %v", odd.Refused, err)
			}
		})
	}
}

// listen serves odd bundles with a certificate for the public names.
func listen(t *testing.T) (address, authority string) {
	t.Helper()
	dir := t.TempDir()
	ca, err := pki.NewCA(dir, "ca")
	if err != nil {
		t.Fatal(err)
	}
	if err := ca.Ensure("mirror", pki.Subject{User: "mirror", Names: mirror.Hosts}); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(ca.File("mirror.crt"), ca.File("mirror.key"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(&mirror.Server{Published: t.TempDir(), Made: t.TempDir()})
	server.TLS, server.EnableHTTP2 = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}, true
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), ca.CertFile()
}

// fetch does what the step fetch-bundle does up to the conversion of the disk.
func fetch(t *testing.T, client *bundle.Mirror) error {
	t.Helper()
	want, err := client.Checksum(t.Context())
	if err != nil {
		return err
	}
	download := client.Open(t.Context())
	defer download.Close()
	archive, err := bundle.OpenArchive(download)
	if err != nil {
		return err
	}
	defer archive.Close()
	disk, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	if _, err := bundle.Unpack(archive, &client.Source, disk); err != nil {
		return err
	}
	sum, err := download.Sum()
	if err != nil {
		return err
	}
	if sum != want {
		return bundle.Mismatch(download.URL(), sum, want)
	}
	_, err = qcow2.Open(disk)
	return err
}
