package certs

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

// Pair is a certificate and its key in PEM.
type Pair struct{ Cert, Key []byte }

// Leaf is what a certificate says.
type Leaf struct {
	User   string
	Groups []string
	Names  []string
	IPs    []net.IP
	From   time.Time
	To     time.Time
}

// NewCA makes a self-signed authority that lives for ten years.
func NewCA(name string) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("make a key: %w", err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{OrganizationalUnit: []string{"openshift"}, CommonName: name},
		IsCA:    true, BasicConstraintsValid: true,
		KeyUsage:  x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		NotBefore: time.Now().Add(-90 * 24 * time.Hour), NotAfter: time.Now().AddDate(10, 0, 0),
	}
	return sign(template, template, key, key)
}

// Issue signs a leaf with a new key.
func (ca Pair) Issue(leaf Leaf) (Pair, error) {
	parent, signer, err := ca.parse()
	if err != nil {
		return Pair{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("make a key: %w", err)
	}
	usage := x509.ExtKeyUsageClientAuth
	if len(leaf.Names) > 0 {
		usage = x509.ExtKeyUsageServerAuth
	}
	template := &x509.Certificate{
		Subject:  pkix.Name{CommonName: leaf.User, Organization: leaf.Groups},
		DNSNames: leaf.Names, IPAddresses: leaf.IPs,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{usage},
		NotBefore:   leaf.From, NotAfter: leaf.To,
	}
	return sign(template, parent, key, signer)
}

// Request makes a key and a certificate signing request for a subject.
func Request(leaf Leaf) (request, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: leaf.User, Organization: leaf.Groups},
		DNSNames: leaf.Names, IPAddresses: leaf.IPs,
	}, private)
	if err != nil {
		return nil, nil, fmt.Errorf("make a request for %s: %w", leaf.User, err)
	}
	key, err = encodeKey(private)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), key, err
}

// Expiry is the end of the first certificate in the file.
func Expiry(file string) (time.Time, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return time.Time{}, fmt.Errorf("read a certificate: %w", err)
	}
	cert, err := first(data)
	if err != nil {
		return time.Time{}, fmt.Errorf("read %s: %w", file, err)
	}
	return cert.NotAfter, nil
}

// Read loads DIR/tls.crt and DIR/tls.key.
func Read(dir string) (Pair, error) {
	cert, certErr := os.ReadFile(filepath.Join(dir, "tls.crt"))
	key, keyErr := os.ReadFile(filepath.Join(dir, "tls.key"))
	return Pair{cert, key}, errors.Join(certErr, keyErr)
}

// Write keeps the pair as DIR/tls.crt and DIR/tls.key.
func (ca Pair) Write(dir string) error {
	return errors.Join(os.MkdirAll(dir, 0o755),
		Replace(filepath.Join(dir, "tls.key"), ca.Key, 0o600),
		Replace(filepath.Join(dir, "tls.crt"), ca.Cert, 0o644))
}

// Replace writes a file so that readers see the old or the new content.
func Replace(file string, data []byte, mode os.FileMode) error {
	if err := os.WriteFile(file+".new", data, mode); err != nil {
		return err
	}
	return errors.Join(os.Chmod(file+".new", mode), os.Rename(file+".new", file))
}

func (ca Pair) parse() (*x509.Certificate, crypto.Signer, error) {
	cert, err := first(ca.Cert)
	if err != nil {
		return nil, nil, err
	}
	block, _ := pem.Decode(ca.Key)
	if block == nil {
		return nil, nil, errors.New("parse the authority's key: no PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("parse the authority's key: %w", err)
	}
	return cert, key.(crypto.Signer), nil
}

func first(data []byte) (*x509.Certificate, error) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
	return nil, errors.New("parse a certificate: no PEM of one")
}

func sign(template, parent *x509.Certificate, key *ecdsa.PrivateKey, signer crypto.Signer) (Pair, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return Pair{}, fmt.Errorf("draw a serial number: %w", err)
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return Pair{}, fmt.Errorf("sign %s: %w", template.Subject.CommonName, err)
	}
	keyPEM, err := encodeKey(key)
	return Pair{pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), keyPEM}, err
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
