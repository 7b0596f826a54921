package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const lifetime = 10 * 365 * 24 * time.Hour

// CA signs certificates and keeps them as DIR/NAME.crt and DIR/NAME.key.
type CA struct {
	dir  string
	name string
	cert *x509.Certificate
	key  crypto.Signer
}

// Subject is what a certificate says of its holder.
type Subject struct {
	User   string
	Groups []string
	// Names and IPs make it a server certificate too.
	Names []string
	IPs   []net.IP
}

// NewCA loads the authority NAME in dir, or makes it.
func NewCA(dir, name string) (*CA, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the certificate directory: %w", err)
	}
	ca := &CA{dir: dir, name: name}
	if _, err := os.Stat(ca.File(name + ".crt")); err == nil {
		return ca, ca.load()
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "guestcluster-rig-" + name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := create(template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	if err := ca.write(name, der, key); err != nil {
		return nil, err
	}
	return ca, ca.load()
}

// File is the path of a file beside the authority's.
func (ca *CA) File(name string) string { return filepath.Join(ca.dir, name) }

// CertFile is the authority's certificate.
func (ca *CA) CertFile() string { return ca.File(ca.name + ".crt") }

// Ensure writes NAME.crt and NAME.key for the subject unless they exist.
func (ca *CA) Ensure(name string, subject Subject) error {
	if _, err := os.Stat(ca.File(name + ".crt")); err == nil {
		return nil
	}
	der, key, err := ca.sign(subject)
	if err != nil {
		return err
	}
	return ca.write(name, der, key)
}

// Issue returns a certificate and key in PEM without keeping them.
func (ca *CA) Issue(subject Subject) (cert, key []byte, err error) {
	der, signer, err := ca.sign(subject)
	if err != nil {
		return nil, nil, err
	}
	return encode(der, signer)
}

// EnsureKeyPair writes a bare key pair, NAME.key and NAME.pub, unless it exists.
func EnsureKeyPair(dir, name string) error {
	file := filepath.Join(dir, name)
	if _, err := os.Stat(file + ".pub"); err == nil {
		return nil
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode key %s: %w", name, err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encode key %s: %w", name, err)
	}
	return errors.Join(
		os.WriteFile(file+".key", block("PRIVATE KEY", private), 0o600),
		os.WriteFile(file+".pub", block("PUBLIC KEY", public), 0o600))
}

func (ca *CA) sign(s Subject) ([]byte, crypto.Signer, error) {
	key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: s.User, Organization: s.Groups},
		DNSNames:    s.Names,
		IPAddresses: s.IPs,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := create(template, ca.cert, key.Public(), ca.key)
	return der, key, err
}

func (ca *CA) load() error {
	certPEM, certErr := os.ReadFile(ca.CertFile())
	keyPEM, keyErr := os.ReadFile(ca.File(ca.name + ".key"))
	if err := errors.Join(certErr, keyErr); err != nil {
		return fmt.Errorf("read authority %s: %w", ca.name, err)
	}
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return fmt.Errorf("read authority %s: %s holds no PEM (remove the state and start again)", ca.name, ca.dir)
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return fmt.Errorf("parse authority %s: %w", ca.name, err)
	}
	key, err := x509.ParsePKCS8PrivateKey(keyBlock.Bytes)
	if err != nil {
		return fmt.Errorf("parse key of authority %s: %w", ca.name, err)
	}
	ca.cert, ca.key = cert, key.(crypto.Signer)
	return nil
}

// write puts the key first: a certificate on disk then always has its key.
func (ca *CA) write(name string, der []byte, key crypto.Signer) error {
	certPEM, keyPEM, err := encode(der, key)
	if err != nil {
		return err
	}
	if err := os.WriteFile(ca.File(name+".key"), keyPEM, 0o600); err != nil {
		return fmt.Errorf("write key %s: %w", name, err)
	}
	if err := os.WriteFile(ca.File(name+".crt"), certPEM, 0o644); err != nil {
		return fmt.Errorf("write certificate %s: %w", name, err)
	}
	return nil
}

func create(template, parent *x509.Certificate, public crypto.PublicKey, signer crypto.Signer) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("draw a serial number: %w", err)
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = template.NotBefore.Add(lifetime)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	if err != nil {
		return nil, fmt.Errorf("sign certificate %s: %w", template.Subject.CommonName, err)
	}
	return der, nil
}

func newKey() (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return key, nil
}

func encode(der []byte, key crypto.Signer) (certPEM, keyPEM []byte, err error) {
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode key: %w", err)
	}
	return block("CERTIFICATE", der), block("PRIVATE KEY", private), nil
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
