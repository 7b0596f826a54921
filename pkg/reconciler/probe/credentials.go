package probe

import (
	"errors"
	"fmt"
	"net"
	"net/url"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const maxKubeconfig = 1 << 20

// Credentials are what is taken from a kubeconfig.
type Credentials struct {
	// CA verifies the server, if the guest has one of its own.
	CA []byte
	// Cert and Key, or Token, authenticate the client.
	Cert, Key []byte
	Token     string
}

// Parse takes the credentials from a kubeconfig whose server must be the
// assigned endpoint. The error says what is refused and holds no secret.
func Parse(kubeconfig []byte, endpoint string) (*Credentials, error) {
	if len(kubeconfig) == 0 {
		return nil, errors.New("the kubeconfig is empty")
	}
	if len(kubeconfig) > maxKubeconfig {
		return nil, fmt.Errorf("the kubeconfig has %d bytes, at most %d are read", len(kubeconfig), maxKubeconfig)
	}
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		// The parser's own error quotes the text.
		return nil, errors.New("the kubeconfig cannot be parsed")
	}
	cluster, user, err := current(config)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(checkCluster(cluster, endpoint), checkUser(user)); err != nil {
		return nil, err
	}
	return &Credentials{
		CA: cluster.CertificateAuthorityData, Cert: user.ClientCertificateData,
		Key: user.ClientKeyData, Token: user.Token,
	}, nil
}

func current(config *clientcmdapi.Config) (*clientcmdapi.Cluster, *clientcmdapi.AuthInfo, error) {
	context := config.Contexts[config.CurrentContext]
	if context == nil {
		return nil, nil, errors.New("the kubeconfig has no current context")
	}
	cluster, user := config.Clusters[context.Cluster], config.AuthInfos[context.AuthInfo]
	if cluster == nil || user == nil {
		return nil, nil, errors.New("the kubeconfig's current context names no cluster or no user")
	}
	return cluster, user, nil
}

func checkCluster(c *clientcmdapi.Cluster, endpoint string) error {
	switch {
	case c.InsecureSkipTLSVerify:
		return errors.New("the kubeconfig has insecure-skip-tls-verify")
	case c.ProxyURL != "":
		return errors.New("the kubeconfig has a proxy-url")
	case c.CertificateAuthority != "":
		return errors.New("the kubeconfig names a file: certificate-authority")
	}
	return checkServer(c, endpoint)
}

func checkServer(c *clientcmdapi.Cluster, endpoint string) error {
	got, err := url.Parse(c.Server)
	if err != nil || got.Scheme != "https" || got.User != nil {
		return errors.New("the kubeconfig's server is no https URL")
	}
	want, err := url.Parse(endpoint)
	if err != nil {
		return fmt.Errorf("parse endpoint: %w", err)
	}
	if address(got) != address(want) {
		return fmt.Errorf("the kubeconfig's server is %q, the assigned endpoint is %q", address(got), address(want))
	}
	if c.TLSServerName != "" && c.TLSServerName != want.Hostname() {
		return fmt.Errorf("the kubeconfig has another tls-server-name: %q", c.TLSServerName)
	}
	return nil
}

func checkUser(u *clientcmdapi.AuthInfo) error {
	switch {
	case u.Exec != nil:
		return errors.New("the kubeconfig runs a command: exec")
	case u.AuthProvider != nil:
		return errors.New("the kubeconfig has an auth-provider")
	case u.ClientCertificate != "" || u.ClientKey != "" || u.TokenFile != "":
		return errors.New("the kubeconfig names a file: client-certificate, client-key or tokenFile")
	case u.Impersonate != "" || u.ImpersonateUID != "" || len(u.ImpersonateGroups) > 0 || len(u.ImpersonateUserExtra) > 0:
		return errors.New("the kubeconfig impersonates another user")
	case u.Username != "" || u.Password != "":
		return errors.New("the kubeconfig has a user name and password")
	case u.Token == "" && len(u.ClientCertificateData) == 0:
		return errors.New("the kubeconfig has neither a token nor a client certificate")
	}
	return nil
}

// address is host:port with the port of https as default.
func address(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// SameEndpoint says whether two https URLs lead to the same host and port.
func SameEndpoint(a, b string) bool {
	left, leftErr := url.Parse(a)
	right, rightErr := url.Parse(b)
	return leftErr == nil && rightErr == nil && left.Scheme == "https" && right.Scheme == "https" && address(left) == address(right)
}
