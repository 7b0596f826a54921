package pki

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"testing"
)

func TestCertificatesSurviveARestartAndVerify(t *testing.T) {
	dir := t.TempDir()
	first, err := NewCA(dir, "ca")
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Ensure("server", Subject{User: "server", IPs: []net.IP{net.ParseIP("192.0.2.1")}}); err != nil {
		t.Fatal(err)
	}
	again, err := NewCA(dir, "ca")
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := again.Issue(Subject{User: "alice", Groups: []string{"developers"}})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	text, err := os.ReadFile(first.CertFile())
	if err != nil {
		t.Fatal(err)
	}
	roots.AppendCertsFromPEM(text)
	usages := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: usages}); err != nil {
		t.Errorf("a certificate of the reloaded authority must verify: %v", err)
	}
	if groups := pair.Leaf.Subject.Organization; len(groups) != 1 || groups[0] != "developers" {
		t.Errorf("got groups %v", groups)
	}
}
