package publishkubeconfig

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/steps/fakeapi"
	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/step"
)

const (
	host       = "gc-demo.apps.example.com"
	secretPath = "/api/v1/namespaces/clusters/secrets/demo-0-kubeconfig"
)

// bench is the step between a fake API and a guest with real TLS.
type bench struct {
	*testing.T
	api  *fakeapi.Server
	step *Publisher
	out  *bytes.Buffer
	dir  string
}

func newBench(t *testing.T, guest http.Handler) *bench {
	b := &bench{T: t, api: fakeapi.Start(t), out: &bytes.Buffer{}, dir: t.TempDir()}
	address := b.serveGuest(guest)
	secrets, err := kube.NewSecrets(b.api.Config(), "clusters")
	if err != nil {
		t.Fatal(err)
	}
	b.step = &Publisher{
		Options: Options{
			Instance: "demo-0", Namespace: "clusters", KubeconfigSecret: "demo-0-kubeconfig", IdentityDir: b.dir, APIHost: host, RunUID: "run-1",
			Timeout: 5 * time.Second, APIEndpointPath: filepath.Join(b.dir, "api-endpoint"), OCPVersionPath: filepath.Join(b.dir, "ocp-version"),
		},
		Secrets: secrets, Progress: b.out, Pause: wait.Backoff{Duration: 5 * time.Millisecond, Steps: 1},
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	}
	return b
}

// serveGuest makes an identity and serves the guest API with it.
func (b *bench) serveGuest(handler http.Handler) string {
	servingCert, servingKey := b.selfSigned(host)
	adminCert, adminKey := b.selfSigned("admin")
	for key, value := range map[string][]byte{
		guestcluster.ServingCAKey: servingCert, guestcluster.AdminCertKey: adminCert, guestcluster.AdminKeyKey: adminKey,
	} {
		if err := os.WriteFile(filepath.Join(b.dir, key), value, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	pair, err := tls.X509KeyPair(servingCert, servingKey)
	if err != nil {
		b.Fatal(err)
	}
	admins := x509.NewCertPool()
	admins.AppendCertsFromPEM(adminCert)
	server := httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: admins, ClientAuth: tls.RequireAndVerifyClientCert}
	server.StartTLS()
	b.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func (b *bench) selfSigned(name string) (cert, key []byte) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		b.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		b.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

func (b *bench) secret(owner string) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "demo-0-kubeconfig", Namespace: "clusters"}}
	if owner != "" {
		secret.OwnerReferences = []metav1.OwnerReference{{APIVersion: "guestcluster.opdev.io/v1alpha1", Kind: "ClusterInstance", Name: owner, UID: "u"}}
	}
	b.api.Put(secretPath, secret)
}

func (b *bench) run(code int, text string) {
	b.Helper()
	err := b.step.Run(context.Background())
	if step.ExitCode(err) != code || (err != nil && !strings.Contains(err.Error(), text)) {
		b.Fatalf("exit code %d, want %d with %q: %v", step.ExitCode(err), code, text, err)
	}
	key, _ := os.ReadFile(filepath.Join(b.dir, guestcluster.AdminKeyKey))
	said := b.out.String()
	if err != nil {
		said += err.Error()
	}
	if line := strings.Split(string(key), "\n")[1]; strings.Contains(said, line) || strings.Contains(said, "PRIVATE KEY") {
		b.Error("key material in the output")
	}
}

func kubernetes(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/version" {
		_, _ = w.Write([]byte(`{"gitVersion":"v1.36.3"}`))
		return
	}
	http.NotFound(w, r)
}

func TestPublishesTwiceTheSame(t *testing.T) {
	b := newBench(t, http.HandlerFunc(kubernetes))
	b.secret("demo-0")
	for range 2 {
		b.run(0, "")
		got := &corev1.Secret{}
		b.api.Get(secretPath, got)
		if string(got.Data[guestcluster.OCPVersionKey]) != "1.36.3" || string(got.Data[guestcluster.RunUIDKey]) != "run-1" {
			t.Errorf("version %q, run %q", got.Data[guestcluster.OCPVersionKey], got.Data[guestcluster.RunUIDKey])
		}
		config, err := clientcmd.RESTConfigFromKubeConfig(got.Data[guestcluster.KubeconfigKey])
		if err != nil || config.Host != "https://"+host+":443" || len(config.CAData) == 0 || len(config.CertData) == 0 || len(config.KeyData) == 0 {
			t.Errorf("kubeconfig: %v", err)
		}
	}
	for name, want := range map[string]string{"api-endpoint": "https://" + host + ":443", "ocp-version": "1.36.3"} {
		if raw, _ := os.ReadFile(filepath.Join(b.dir, name)); string(raw) != want {
			t.Errorf("result %s = %q, want %q", name, raw, want)
		}
	}
}

func TestThePasswordOfKubeadminIsPublishedWhereThereIsOne(t *testing.T) {
	for name, password := range map[string]string{"none": "", "one": "abcde-fghij-klmno-pqrst"} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, http.HandlerFunc(kubernetes))
			b.secret("demo-0")
			if password != "" {
				if err := os.WriteFile(filepath.Join(b.dir, guestcluster.KubeadminPasswordKey), []byte(password), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			b.run(0, "")
			got := &corev1.Secret{}
			b.api.Get(secretPath, got)
			if published, ok := got.Data[guestcluster.KubeadminPasswordKey]; string(published) != password || ok != (password != "") {
				t.Errorf("published %t, %d bytes", ok, len(published))
			}
			if password != "" && strings.Contains(b.out.String(), password) {
				t.Error("the password is in the output")
			}
		})
	}
}

func TestOpenShiftTellsItsOwnVersion(t *testing.T) {
	for name, status := range map[string]string{
		"when it was installed":         `"history":[{"state":"Completed","version":"4.19.3"}]`,
		"while an update is on its way": `"desired":{"version":"4.20.0"},"history":[{"state":"Partial","version":"4.20.0"},{"state":"Completed","version":"4.19.3"}]`,
		"after an update":               `"desired":{"version":"4.19.3"},"history":[{"state":"Completed","version":"4.19.3"},{"state":"Completed","version":"4.18.1"}]`,
	} {
		t.Run(name, func(t *testing.T) { tellsVersion(t, `{"status":{`+status+`}}`) })
	}
}

func TestAVersionThatIsNotInstalledIsNotTold(t *testing.T) {
	b := newBench(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/config.openshift.io/v1/clusterversions/version" {
			kubernetes(w, r)
			return
		}
		_, _ = w.Write([]byte(`{"status":{"desired":{"version":"4.20.0"},"history":[{"state":"Partial","version":"4.20.0"}]}}`))
	}))
	b.secret("demo-0")
	b.step.Timeout = time.Second
	b.run(step.ExitTimeout, `no Completed entry in its history: version "4.20.0" is on its way`)
}

func tellsVersion(t *testing.T, answer string) {
	asked := 0
	b := newBench(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/config.openshift.io/v1/clusterversions/version" {
			kubernetes(w, r)
			return
		}
		if asked++; asked == 1 {
			_, _ = w.Write([]byte(`{}`)) // its operator has not looked yet
			return
		}
		_, _ = w.Write([]byte(answer))
	}))
	b.secret("demo-0")
	b.run(0, "")
	got := &corev1.Secret{}
	if b.api.Get(secretPath, got); string(got.Data[guestcluster.OCPVersionKey]) != "4.19.3" {
		t.Errorf("version %q", got.Data[guestcluster.OCPVersionKey])
	}
}

func TestRefusesASecretThatIsNotTheInstances(t *testing.T) {
	for _, owner := range []string{"", "demo-1"} {
		b := newBench(t, http.HandlerFunc(kubernetes))
		b.secret(owner)
		b.run(step.ExitUser, "does not belong to ClusterInstance demo-0")
	}
}

func TestAMissingSecretIsNotMade(t *testing.T) {
	newBench(t, http.HandlerFunc(kubernetes)).run(step.ExitUser, "read Secret")
}

func TestConflictsAreTriedAgain(t *testing.T) {
	b := newBench(t, http.HandlerFunc(kubernetes))
	b.secret("demo-0")
	n := 0
	b.api.Fault(func(r *http.Request) int {
		if r.Method == http.MethodPatch && n < 2 {
			n++
			return http.StatusConflict
		}
		return 0
	})
	b.run(0, "")
}

func TestAGuestThatRedirectsIsNotFollowed(t *testing.T) {
	b := newBench(t, http.RedirectHandler("https://elsewhere.example.com/version", http.StatusFound))
	b.step.Timeout = 200 * time.Millisecond
	b.run(step.ExitTimeout, "302")
}

func TestAGuestWithAnotherCertificateIsNotTrusted(t *testing.T) {
	b := newBench(t, http.HandlerFunc(kubernetes))
	b.step.Timeout, b.step.APIHost = 200*time.Millisecond, "other.example.com"
	b.run(step.ExitTimeout, "certificate")
}
