package resources

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

func TestIdentityOfCRC(t *testing.T) {
	in := &Inputs{BootKey: []byte("key"), PullSecret: []byte("{}")}
	form := regexp.MustCompile(`^[A-HJ-NP-Za-km-np-z2-9]{5}(-[A-HJ-NP-Za-km-np-z2-9]{5}){3}$`)
	seen := map[string]bool{}
	for range 20 {
		secret, err := IdentitySecret(instance(), "gc.apps.example.org", in, now)
		if err != nil {
			t.Fatal(err)
		}
		data := secret.Data
		if string(data[guestcluster.BootSSHPrivateKeyKey]) != "key" || string(data[guestcluster.PullSecretKey]) != "{}" || len(data[guestcluster.AdminKeyKey]) == 0 {
			t.Errorf("%d keys", len(data))
		}
		password := string(data[guestcluster.KubeadminPasswordKey])
		if !form.MatchString(password) || seen[password] {
			t.Errorf("password %q", password)
		}
		seen[password] = true
	}
	secret, err := IdentitySecret(instance(), "gc.apps.example.org", nil, now)
	if err != nil || len(secret.Data) != 8 {
		t.Errorf("without inputs: %d keys, error %v", len(secret.Data), err)
	}
}

func bootKey(t *testing.T, passphrase string) (private, public string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "core")
	if passphrase != "" {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(key, "core", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	authorized, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(block)), string(ssh.MarshalAuthorizedKey(authorized))
}

func sec1(t *testing.T) (private, public []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	private, err = x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	public, err = x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return private, public
}

func TestBootKeyProblem(t *testing.T) {
	private, public := bootKey(t, "")
	encrypted, _ := bootKey(t, "hunter2")
	der, publicDER := sec1(t)
	asPEM := func(kind string, der []byte, headers map[string]string) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Headers: headers, Bytes: der}))
	}
	rows := map[string]struct{ raw, want string }{
		"OpenSSH's own format":         {private, ""},
		"PEM, as bundles have it":      {asPEM("EC PRIVATE KEY", der, nil), ""},
		"no key":                       {"", "missing"},
		"an encrypted key":             {encrypted, "is encrypted: remove the passphrase"},
		"an encrypted PEM key":         {asPEM("EC PRIVATE KEY", der, map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-128-CBC,00"}), "is encrypted"},
		"an encrypted PKCS #8 key":     {asPEM("ENCRYPTED PRIVATE KEY", der, nil), "is encrypted"},
		"the public key":               {public, "is a public key"},
		"the public key as PEM":        {asPEM("PUBLIC KEY", publicDER, nil), "is a public key"},
		"half a key":                   {private[:100], "is no private key"},
		"a text":                       {"hunter2", "is no private key"},
		"something much longer":        {strings.Repeat("hunter2 ", 10000), "too long"},
		"a key whose bytes are broken": {asPEM("EC PRIVATE KEY", der[:20], nil), "is no private key"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			got := BootKeyProblem([]byte(row.raw))
			if (got == "") != (row.want == "") || !strings.Contains(got, row.want) || strings.Contains(got, "hunter2") {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func TestCloneBindingIsOwnedByAnnotation(t *testing.T) {
	i := instance()
	good := CloneBinding(i)
	if good.Namespace != "guestcluster-bundles" || good.Name != i.CloneBindingName() || good.RoleRef.Name != "guestcluster-clone" ||
		good.Subjects[0].Namespace != "ci" || good.Subjects[0].Name != i.DerivedName() {
		t.Errorf("got %+v", good)
	}
	rows := map[string]struct {
		change func(metav1.Object)
		want   bool
	}{
		"ours": {func(metav1.Object) {}, true},
		"of an older instance": {func(o metav1.Object) {
			o.SetAnnotations(map[string]string{guestcluster.OwnerInstanceAnnotation: "ci/pool-3/uid-0"})
		}, false},
		"with a label alone":           {func(o metav1.Object) { o.SetAnnotations(nil) }, false},
		"with an annotation alone":     {func(o metav1.Object) { o.SetLabels(nil) }, false},
		"in a namespace of no one":     {func(o metav1.Object) { o.SetNamespace("default") }, false},
		"in ours it needs a reference": {func(o metav1.Object) { o.SetNamespace("ci") }, false},
		"that something else controls": {func(o metav1.Object) {
			o.SetOwnerReferences(slices.Clone(ServiceAccount(instance()).OwnerReferences))
		}, false},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			b := CloneBinding(i)
			row.change(b)
			if got := Owns(i, b); got != row.want {
				t.Errorf("got %t", got)
			}
		})
	}
	if !Owns(i, ServiceAccount(i)) || Owns(&v1alpha1.ClusterInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "ci", UID: "uid-0"}}, ServiceAccount(i)) {
		t.Error("the owner reference does not decide")
	}
}
