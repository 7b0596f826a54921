package cluster

import "path/filepath"

// Root is the file system that files belong to: "/" in the guest, a staging
// directory when the disk is built.
type Root string

// Names of the cluster in a CRC bundle.
const (
	NodeName   = "crc"
	APIName    = "api.crc.testing"
	APIIntName = "api-int.crc.testing"
	NodeIP     = "192.168.126.11"
	StaleOwner = "machine-config-controller-5c9d8f7b6d-x2x7k_parked"

	ServiceRange = "10.217.4.0/23"
)

// Path is a file below the root.
func (r Root) Path(words ...string) string {
	return filepath.Join(append([]string{string(r)}, words...)...)
}

// Secret is a directory of the API server's static pod.
func (r Root) Secret(name string) string {
	return r.Path("etc/kubernetes/static-pod-resources/kube-apiserver-certs/secrets", name)
}

// Bundle is a file with authorities that the API server trusts or shows.
func (r Root) Bundle(name string) string {
	return r.Path("etc/kubernetes/static-pod-resources/kube-apiserver-certs/configmaps", name, "ca-bundle.crt")
}

// Signer is the directory of an authority.
func (r Root) Signer(name string) string {
	return r.Path("etc/kubernetes/static-pod-resources/kube-controller-manager-certs/secrets", name)
}

// Kubelet's certificates; the names are links to files with dates.
func (r Root) kubeletPKI() string { return r.Path("var/lib/kubelet/pki") }

// KubeletClient is the kubelet's client certificate and key.
func (r Root) KubeletClient() string {
	return filepath.Join(r.kubeletPKI(), "kubelet-client-current.pem")
}

// KubeletServer is the kubelet's serving certificate and key.
func (r Root) KubeletServer() string {
	return filepath.Join(r.kubeletPKI(), "kubelet-server-current.pem")
}

// Directories and names of what Secret, Bundle and Signer hold.
const (
	aggregatorClient = "aggregator-client"
	controlPlane     = "control-plane-client"
	external         = "external-loadbalancer-serving-certkey"
	internal         = "internal-loadbalancer-serving-certkey"
	localhost        = "localhost-serving-cert-certkey"
	serviceNetwork   = "service-network-serving-certkey"
	serviceAccounts  = "bound-service-account-signing-key"

	serverCA     = "kube-apiserver-server-ca"
	clientCA     = "client-ca"
	operatorCA   = "operator-client-ca"
	aggregatorCA = "aggregator-client-ca"

	csrSigner        = "csr-signer"
	aggregatorSigner = "aggregator-client-signer"
)
