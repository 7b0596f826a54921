package resources

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"

	"golang.org/x/crypto/ssh"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
)

const (
	validity  = 365 * 24 * time.Hour
	clockSkew = 10 * time.Minute
)

// newIdentity makes all keys and certificates of an instance. The private keys
// of both CAs are thrown away: nothing else is ever signed by them.
func newIdentity(hosts []string, now time.Time) (map[string][]byte, error) {
	data := map[string][]byte{}
	if err := addSSH(data); err != nil {
		return nil, fmt.Errorf("make SSH key pair: %w", err)
	}
	admin := leaf(now, pkix.Name{CommonName: "system:admin", Organization: []string{"system:masters"}}, x509.ExtKeyUsageClientAuth)
	ca, cert, key, err := issue("guestcluster-admin", admin, now)
	if err != nil {
		return nil, fmt.Errorf("make admin certificate: %w", err)
	}
	data[guestcluster.AdminCAKey], data[guestcluster.AdminCertKey], data[guestcluster.AdminKeyKey] = ca, cert, key
	serving := leaf(now, pkix.Name{CommonName: "guestcluster-api"}, x509.ExtKeyUsageServerAuth)
	serving.DNSNames, serving.IPAddresses = hosts, []net.IP{net.IPv4(127, 0, 0, 1)}
	ca, cert, key, err = issue("guestcluster-serving", serving, now)
	if err != nil {
		return nil, fmt.Errorf("make serving certificate: %w", err)
	}
	data[guestcluster.ServingCAKey], data[guestcluster.ServingCertKey], data[guestcluster.ServingKeyKey] = ca, cert, key
	return data, nil
}

func addSSH(data map[string][]byte) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(key, "guestcluster")
	if err != nil {
		return err
	}
	public, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		return err
	}
	data[guestcluster.SSHPrivateKeyKey] = pem.EncodeToMemory(block)
	data[guestcluster.SSHPublicKeyKey] = ssh.MarshalAuthorizedKey(public)
	return nil
}

func leaf(now time.Time, subject pkix.Name, usage x509.ExtKeyUsage) *x509.Certificate {
	return &x509.Certificate{
		Subject: subject, NotBefore: now.Add(-clockSkew), NotAfter: now.Add(validity),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
		BasicConstraintsValid: true,
	}
}

// issue signs template with a CA made for it alone; all results are PEM.
func issue(caName string, template *x509.Certificate, now time.Time) (ca, cert, key []byte, err error) {
	caKey, err := newKey()
	if err != nil {
		return nil, nil, nil, err
	}
	leafKey, err := newKey()
	if err != nil {
		return nil, nil, nil, err
	}
	root := &x509.Certificate{
		Subject: pkix.Name{CommonName: caName}, NotBefore: now.Add(-clockSkew), NotAfter: now.Add(validity),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	if ca, err = sign(root, root, &caKey.PublicKey, caKey); err != nil {
		return nil, nil, nil, err
	}
	if cert, err = sign(template, root, &leafKey.PublicKey, caKey); err != nil {
		return nil, nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(leafKey)
	if err != nil {
		return nil, nil, nil, err
	}
	return ca, cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func sign(template, parent *x509.Certificate, public *ecdsa.PublicKey, signer *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

func newKey() (*ecdsa.PrivateKey, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}
