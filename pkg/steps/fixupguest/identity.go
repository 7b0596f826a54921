package fixupguest

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/steps/guest"
	"opdev.io/guestcluster/pkg/steps/step"
)

// identity is what the controller made for the instance before its first run.
type identity struct {
	instanceKey, bootKey guest.Key
	// authorized is the line of authorized_keys, with its newline.
	authorized []byte

	adminCA, adminCert, adminKey []byte
	admin                        tls.Certificate
	servingKey, servingChain     []byte
	servingLeaf                  []byte // DER
	servingCA                    *x509.CertPool
	pullSecret                   []byte
	auths                        map[string]json.RawMessage
	kubeadmin                    string
}

// readIdentity reads the mounted Secret. Its errors name files, never contents.
func readIdentity(dir string) (*identity, error) {
	files := map[string][]byte{}
	for _, key := range []string{
		guestcluster.SSHPrivateKeyKey, guestcluster.BootSSHPrivateKeyKey, guestcluster.AdminCAKey, guestcluster.AdminCertKey, guestcluster.AdminKeyKey,
		guestcluster.ServingCAKey, guestcluster.ServingCertKey, guestcluster.ServingKeyKey, guestcluster.PullSecretKey, guestcluster.KubeadminPasswordKey,
	} {
		raw, err := os.ReadFile(filepath.Join(dir, key))
		if err != nil {
			return nil, step.InfraError("read identity: %w", err)
		}
		files[key] = raw
	}
	id := &identity{kubeadmin: strings.TrimSpace(string(files[guestcluster.KubeadminPasswordKey]))}
	for _, parse := range []func(map[string][]byte) error{id.parseKeys, id.parseAdmin, id.parseServing, id.parsePullSecret} {
		if err := parse(files); err != nil {
			return nil, err
		}
	}
	return id, nil
}

func (id *identity) parseKeys(files map[string][]byte) error {
	own, err := ssh.ParsePrivateKey(files[guestcluster.SSHPrivateKeyKey])
	if err != nil {
		return step.InfraError("identity: %s is no private key", guestcluster.SSHPrivateKeyKey)
	}
	boot, err := ssh.ParsePrivateKey(files[guestcluster.BootSSHPrivateKeyKey])
	if err != nil {
		return step.UserError("identity: %s is no private key, or an encrypted one: check the Secret of template.bundleSSHKeyRef", guestcluster.BootSSHPrivateKeyKey)
	}
	id.instanceKey, id.bootKey = guest.Key{Name: "the instance's key", Signer: own}, guest.Key{Name: "the boot key", Signer: boot}
	id.authorized = ssh.MarshalAuthorizedKey(own.PublicKey())
	return nil
}

func (id *identity) parseAdmin(files map[string][]byte) (err error) {
	id.adminCA, id.adminCert, id.adminKey = files[guestcluster.AdminCAKey], files[guestcluster.AdminCertKey], files[guestcluster.AdminKeyKey]
	if id.admin, err = tls.X509KeyPair(id.adminCert, id.adminKey); err != nil {
		return step.InfraError("identity: %s and %s are no key pair", guestcluster.AdminCertKey, guestcluster.AdminKeyKey)
	}
	return nil
}

func (id *identity) parseServing(files map[string][]byte) error {
	cert, ca := files[guestcluster.ServingCertKey], files[guestcluster.ServingCAKey]
	pair, err := tls.X509KeyPair(cert, files[guestcluster.ServingKeyKey])
	if err != nil {
		return step.InfraError("identity: %s and %s are no key pair", guestcluster.ServingCertKey, guestcluster.ServingKeyKey)
	}
	id.servingCA = x509.NewCertPool()
	if !id.servingCA.AppendCertsFromPEM(ca) {
		return step.InfraError("identity: %s holds no certificate", guestcluster.ServingCAKey)
	}
	id.servingLeaf, id.servingKey = pair.Certificate[0], files[guestcluster.ServingKeyKey]
	id.servingChain = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: id.servingLeaf}) // the leaf first, then its CA
	id.servingChain = append(id.servingChain, append(bytes.TrimSpace(ca), '\n')...)
	return nil
}

func (id *identity) parsePullSecret(files map[string][]byte) error {
	id.pullSecret = files[guestcluster.PullSecretKey]
	auths, err := parseAuths(id.pullSecret)
	if err != nil {
		return step.UserError("the pull secret is of no use: %w; check the Secret of template.pullSecretRef", err)
	}
	id.auths = auths
	return nil
}
