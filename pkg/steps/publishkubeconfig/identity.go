package publishkubeconfig

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	api "k8s.io/client-go/tools/clientcmd/api/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/steps/step"
)

// identity is what proves the guest to the admin and the admin to the guest.
type identity struct {
	servingCA, adminCert, adminKey []byte
	// password of user kubeadmin, for topologies that have one.
	password []byte
}

// readIdentity reads the mounted Secret. Its errors name files, never contents.
func readIdentity(dir string) (*identity, error) {
	id := &identity{}
	for key, into := range map[string]*[]byte{
		guestcluster.ServingCAKey: &id.servingCA,
		guestcluster.AdminCertKey: &id.adminCert,
		guestcluster.AdminKeyKey:  &id.adminKey,
	} {
		raw, err := os.ReadFile(filepath.Join(dir, key))
		if err != nil {
			return nil, step.InfraError("read identity: %w", err)
		}
		*into = raw
	}
	password, err := os.ReadFile(filepath.Join(dir, guestcluster.KubeadminPasswordKey))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, step.InfraError("read identity: %w", err)
	}
	id.password = password
	return id, nil
}

// tlsConfig trusts the guest's serving CA alone and presents the admin.
func (id *identity) tlsConfig() (*tls.Config, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(id.servingCA) {
		return nil, step.InfraError("identity: %s holds no certificate", guestcluster.ServingCAKey)
	}
	admin, err := tls.X509KeyPair(id.adminCert, id.adminKey)
	if err != nil {
		return nil, step.InfraError("identity: %s and %s are no key pair", guestcluster.AdminCertKey, guestcluster.AdminKeyKey)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{admin}}, nil
}

// kubeconfig is the admin's way to the guest through its external address.
func (id *identity) kubeconfig(server string) ([]byte, error) {
	config := api.Config{
		Kind: "Config", APIVersion: "v1", CurrentContext: "admin",
		Clusters:  []api.NamedCluster{{Name: "guest", Cluster: api.Cluster{Server: server, CertificateAuthorityData: id.servingCA}}},
		AuthInfos: []api.NamedAuthInfo{{Name: "admin", AuthInfo: api.AuthInfo{ClientCertificateData: id.adminCert, ClientKeyData: id.adminKey}}},
		Contexts:  []api.NamedContext{{Name: "admin", Context: api.Context{Cluster: "guest", AuthInfo: "admin"}}},
	}
	raw, err := json.Marshal(config) // JSON is YAML, and needs no other library
	if err != nil {
		return nil, step.InfraError("encode kubeconfig: %w", err)
	}
	return raw, nil
}
