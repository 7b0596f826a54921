package redact

import (
	"strings"
	"testing"
)

func TestCredentialsDisappear(t *testing.T) {
	const canary = "Q2FuYXJ5"
	for name, text := range map[string]string{
		"a private key":                 "key:\n-----BEGIN EC PRIVATE KEY-----\n" + canary + "\n-----END EC PRIVATE KEY-----\n",
		"half a private key":            "-----BEGIN OPENSSH PRIVATE KEY-----\n" + canary,
		"a token of a kubeconfig":       "users:\n- user:\n    token: " + canary,
		"key data of a kubeconfig":      "client-key-data: " + canary,
		"a pull secret":                 `{"auths":{"quay.io":{"auth":"` + canary + `","email":"a@b"}}}`,
		"a pull secret inside a string": `{\"auths\":{\"quay.io\":{\"auth\":\"` + canary + `\"}}}`,
		"a pull secret as YAML":         "auth: " + canary + "==",
		"a password":                    "kubeadmin-password=" + canary,
		"a password hash":               "developer:$2y$10$" + canary + "./abc",
		"an Authorization header":       "Authorization: Bearer " + canary,
		"a URL":                         "https://user:" + canary + "@registry.example.com/v2",
	} {
		if got := Text(text); strings.Contains(got, canary) || !strings.Contains(got, Mark) {
			t.Errorf("%s: %q", name, got)
		}
	}
	sums := "the bundle's SHA-256 is " + strings.Repeat("0a", 32) + ", the list says " + strings.Repeat("b1", 32)
	if got := Text(sums); got != sums {
		t.Errorf("checksums are no secrets: %q", got)
	}
	plain := "kubelet: node crc is NotReady; sshd: Accepted publickey for core; authentication operator is Available"
	if got := Text(plain); got != plain {
		t.Errorf("removed too much: %q", got)
	}
}
