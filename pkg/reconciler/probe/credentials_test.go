package probe

import (
	"strings"
	"testing"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const endpoint = "https://gc-pool-0.apps.example.org"

func TestParseRefuses(t *testing.T) {
	rows := map[string]struct {
		change func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)
		want   string
	}{
		"another host": {func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.Server = "https://evil.example.org" }, "assigned endpoint"},
		"another port": {func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.Server = endpoint + ":6443" }, "assigned endpoint"},
		"plain http": {func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			c.Server = "http://gc-pool-0.apps.example.org:443"
		}, "no https URL"},
		"a user in the URL": {func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			c.Server = "https://u:p@gc-pool-0.apps.example.org"
		}, "no https URL"},
		"skipped TLS":         {func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.InsecureSkipTLSVerify = true }, "insecure-skip-tls-verify"},
		"a proxy":             {func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.ProxyURL = "http://proxy" }, "proxy-url"},
		"a CA file":           {func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.CertificateAuthority = "/etc/passwd" }, "names a file"},
		"another server name": {func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.TLSServerName = "evil" }, "tls-server-name"},
		"a command": {func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.Exec = &clientcmdapi.ExecConfig{Command: "sh", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
		}, "exec"},
		"an auth provider": {func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.AuthProvider = &clientcmdapi.AuthProviderConfig{Name: "oidc"}
		}, "auth-provider"},
		"a token file":       {func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.TokenFile = "/var/run/secrets/token" }, "names a file"},
		"a certificate file": {func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.ClientCertificate = "/a" }, "names a file"},
		"a key file":         {func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.ClientKey = "/a" }, "names a file"},
		"impersonation":      {func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.Impersonate = "root" }, "impersonates"},
		"a group to be":      {func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.ImpersonateGroups = []string{"g"} }, "impersonates"},
		"a password":         {func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.Username, u.Password = "u", "p" }, "user name and password"},
		"nothing at all":     {func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.Token = "" }, "neither a token"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(kubeconfig(t, endpoint, row.change), endpoint)
			if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "top-secret") {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}

func TestParseRefusesWhatIsNoKubeconfig(t *testing.T) {
	for name, raw := range map[string]string{
		"empty": "", "not YAML": "top-secret: [", "no context": "apiVersion: v1\nkind: Config\n",
		"too large": strings.Repeat("#", maxKubeconfig+1),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse([]byte(raw), endpoint); err == nil || strings.Contains(err.Error(), "top-secret") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestParseTakesCredentials(t *testing.T) {
	raw := kubeconfig(t, endpoint+":443/", func(c *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
		c.CertificateAuthorityData, u.Token = []byte("ca"), ""
		u.ClientCertificateData, u.ClientKeyData = []byte("cert"), []byte("key")
	})
	got, err := Parse(raw, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	if string(got.CA) != "ca" || string(got.Cert) != "cert" || string(got.Key) != "key" || got.Token != "" {
		t.Error("the credentials differ")
	}
}

func TestSameEndpoint(t *testing.T) {
	for other, want := range map[string]bool{
		endpoint: true, endpoint + ":443": true, endpoint + ":6443": false, "http://gc-pool-0.apps.example.org": false, "https://other": false,
	} {
		if got := SameEndpoint(endpoint, other); got != want {
			t.Errorf("%s: %t", other, got)
		}
	}
}
