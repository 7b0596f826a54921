package controlplane

import (
	"errors"
	"fmt"
	"net"
	"os"

	"opdev.io/guestcluster/test/rig/pki"
)

// Identities is the certificate authority of a control plane and its files.
type Identities struct {
	*pki.CA
}

// clients are the identities of Kubernetes' own documentation (PKI
// certificates and requirements); the groups carry the rights.
func clients(node string) map[string]pki.Subject {
	return map[string]pki.Subject{
		"admin":          {User: "rig-admin", Groups: []string{"system:masters"}},
		"kubelet-client": {User: "kube-apiserver-kubelet-client", Groups: []string{"system:masters"}},
		"controllers":    {User: "system:kube-controller-manager"},
		"scheduler":      {User: "system:kube-scheduler"},
		"proxy":          {User: "system:kube-proxy"},
		"dns":            {User: "rig-dns", Groups: []string{"system:masters"}},
		"node":           {User: "system:node:" + node, Groups: []string{"system:nodes"}},
	}
}

// EnsureIdentities makes what is missing in dir.
func EnsureIdentities(dir, node string, serverIPs ...net.IP) (Identities, error) {
	ca, err := pki.NewCA(dir, "ca")
	if err != nil {
		return Identities{}, err
	}
	front, err := pki.NewCA(dir, "front-proxy-ca")
	if err != nil {
		return Identities{}, err
	}
	err = errors.Join(
		front.Ensure("front-proxy-client", pki.Subject{User: "front-proxy-client"}),
		pki.EnsureKeyPair(dir, "sa"),
		ca.Ensure("apiserver", pki.Subject{
			User:  "kube-apiserver",
			Names: []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost"},
			IPs:   serverIPs,
		}))
	for name, subject := range clients(node) {
		err = errors.Join(err, ca.Ensure(name, subject))
	}
	if err != nil {
		return Identities{}, fmt.Errorf("make identities: %w", err)
	}
	return Identities{ca}, nil
}

// WriteKubeconfig writes a kubeconfig for one of the identities.
func (i Identities) WriteKubeconfig(file, name, server string) error {
	data, err := i.Kubeconfig(name, server)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}
