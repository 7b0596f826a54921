package broker

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
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Version is what every guest says it is.
const Version = "4.19.3"

// Guests plays the API servers of all guests below Domain, over real TLS.
type Guests struct {
	server *httptest.Server
	ca     []byte

	mu     sync.Mutex
	silent map[string]bool
}

// NewGuests starts them; they stop with the test.
func NewGuests(t testing.TB) *Guests {
	t.Helper()
	cert, ca := certificate(t, "*."+Domain)
	g := &Guests{ca: ca, silent: map[string]bool{}}
	g.server = httptest.NewUnstartedServer(http.HandlerFunc(g.answer))
	g.server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	g.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	g.server.StartTLS()
	t.Cleanup(g.server.Close)
	return g
}

// Dial leads every address to the guests.
func (g *Guests) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, g.server.Listener.Addr().String())
}

// Silence makes the guests at hosts with the prefix answer, or not.
func (g *Guests) Silence(prefix string, silent bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.silent[prefix] = silent
}

func (g *Guests) silenced(host string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for prefix, silent := range g.silent {
		if silent && strings.HasPrefix(host, prefix) {
			return true
		}
	}
	return false
}

func (g *Guests) answer(w http.ResponseWriter, r *http.Request) {
	switch {
	case g.silenced(r.Host):
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.Header.Get("Authorization") != "Bearer "+token(r.Host):
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == "/version":
		fmt.Fprint(w, `{"gitVersion": "v1.32.5"}`)
	default:
		fmt.Fprint(w, `{}`)
	}
}

func token(host string) string { return Canary + "token-of-" + host }

// Kubeconfig is what a guest's provisioning leaves behind.
func (g *Guests) Kubeconfig(endpoint string) []byte {
	config := clientcmdapi.NewConfig()
	config.Clusters["guest"] = &clientcmdapi.Cluster{Server: endpoint, CertificateAuthorityData: g.ca}
	config.AuthInfos["admin"] = &clientcmdapi.AuthInfo{Token: token(strings.TrimPrefix(endpoint, "https://"))}
	config.Contexts["admin"] = &clientcmdapi.Context{Cluster: "guest", AuthInfo: "admin"}
	config.CurrentContext = "admin"
	raw, err := clientcmd.Write(*config)
	if err != nil {
		panic(err)
	}
	return raw
}

func certificate(t testing.TB, host string) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, text.Bytes()
}
