package fakeguest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
)

// PullSecret is the pull secret of identities.
const PullSecret = `{"auths":{"registry.example.com":{"auth":"Q2FuYXJ5UHVsbFNlY3JldA==","email":"ci@example.com"}}}`

// KubeadminPassword is kubeadmin's password in identities.
const KubeadminPassword = "Canar-yPass-wordX-12345"

// Authority is a certificate authority.
type Authority struct {
	PEM         []byte
	certificate *x509.Certificate
	key         crypto.Signer
}

// NewAuthority makes an authority.
func NewAuthority(t testing.TB, name string) *Authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &Authority{encode("CERTIFICATE", der), parsed, key}
}

// Issue signs a certificate for a user or, when there are names, for a server.
func (a *Authority) Issue(t testing.TB, subject pkix.Name, end time.Time, names ...string) (cert, key []byte) {
	t.Helper()
	private := newKey(t)
	usage := x509.ExtKeyUsageClientAuth
	if len(names) > 0 {
		usage = x509.ExtKeyUsageServerAuth
	}
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<60))
	template := &x509.Certificate{
		SerialNumber: serial, Subject: subject, DNSNames: names, NotBefore: end.Add(-24 * time.Hour), NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, private.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", raw)
}

// WriteIdentity fills a directory as an identity Secret for the host is mounted.
func WriteIdentity(t testing.TB, dir, host string, bootKey []byte) {
	t.Helper()
	admins, servers, end := NewAuthority(t, "admins"), NewAuthority(t, "servers"), time.Now().Add(time.Hour)
	adminCert, adminKey := admins.Issue(t, pkix.Name{CommonName: "system:admin", Organization: []string{"system:masters"}}, end)
	cert, key := servers.Issue(t, pkix.Name{CommonName: "api"}, end, host)
	for name, content := range map[string][]byte{
		guestcluster.SSHPrivateKeyKey: NewSSHKey(t), guestcluster.BootSSHPrivateKeyKey: bootKey,
		guestcluster.AdminCAKey: admins.PEM, guestcluster.AdminCertKey: adminCert, guestcluster.AdminKeyKey: adminKey,
		guestcluster.ServingCAKey: servers.PEM, guestcluster.ServingCertKey: cert, guestcluster.ServingKeyKey: key,
		guestcluster.PullSecretKey: []byte(PullSecret), guestcluster.KubeadminPasswordKey: []byte(KubeadminPassword),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// NewSSHKey makes a private key in OpenSSH's format.
func NewSSHKey(t testing.TB) []byte {
	t.Helper()
	block, err := ssh.MarshalPrivateKey(newKey(t), "test")
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(block)
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
