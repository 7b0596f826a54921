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
		"a URL with a user alone":       "https://" + canary + "@registry.example.com/v2",
		"a URL that was signed":         "GET https://s3.example.com/disk.qcow2?X-Amz-Signature=" + canary + "&x=1: 403",
		"a URL in quotes":               `Get "https://s3.example.com/disk.qcow2?sig=` + canary + `": EOF`,
		"a URL in JSON":                 `{"message":"Get \"docker://s3.example.com/disk?a=1\u0026sig=` + canary + `\""}`,
		"a fragment":                    "https://example.com/#token-" + canary,
	} {
		if got := Text(text); strings.Contains(got, canary) || !strings.Contains(got, Mark) {
			t.Errorf("%s: %q", name, got)
		}
	}
	for text, want := range map[string]string{
		"https://h/p?sig=x: cut after 5": "https://h/p?[redacted]: cut after 5",
		"see https://h/p.":               "see https://h/p.",
		"a?b://c d?e":                    "a?b://c d?e",
		"a@b https://h:443/c@d?e=f":      "a@b https://h:443/c@d?[redacted]",
	} {
		if got := URLs(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
	if got := Text("abcde-fghij-klmno-pqrst"); got != Mark {
		t.Errorf("a kubeadmin password is %q", got)
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
