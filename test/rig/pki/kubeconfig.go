package pki

import (
	"encoding/base64"
	"fmt"
	"os"
)

const kubeconfig = `apiVersion: v1
kind: Config
current-context: rig
clusters:
- name: rig
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: %s
  user:
    client-certificate-data: %s
    client-key-data: %s
contexts:
- name: rig
  context: {cluster: rig, user: %[3]q}
`

// Kubeconfig returns a kubeconfig for the certificate NAME at the server.
func (ca *CA) Kubeconfig(name, server string) ([]byte, error) {
	var encoded [3]string
	for i, file := range []string{ca.CertFile(), ca.File(name + ".crt"), ca.File(name + ".key")} {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("make kubeconfig of %s: %w", name, err)
		}
		encoded[i] = base64.StdEncoding.EncodeToString(data)
	}
	return fmt.Appendf(nil, kubeconfig, server, encoded[0], name, encoded[1], encoded[2]), nil
}
