package fakeguest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"opdev.io/guestcluster/pkg/steps/fakeapi"
	"opdev.io/guestcluster/pkg/steps/guest"
)

func (g *Guest) serveAPI() {
	server := httptest.NewUnstartedServer(http.HandlerFunc(g.serve))
	server.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{ClientAuth: tls.RequestClientCert, ClientCAs: g.authorities(), GetCertificate: g.certificate}, nil
	}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	g.listen = server.Listener.Addr().String()
	g.t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
}

func (g *Guest) apiRuns() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Contains(g.units["kubelet"], "active") && !g.APINever
}

// certificate shows a name's own certificate once it was rolled out.
func (g *Guest) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	g.mu.Lock()
	secret := g.state.served[hello.ServerName]
	g.mu.Unlock()
	cert, key := g.own, g.ownKey
	var live corev1.Secret
	if secret != "" && g.API.Get(Config+"secrets/"+secret, &live) {
		cert, key = live.Data[corev1.TLSCertKey], live.Data[corev1.TLSPrivateKeyKey]
	}
	pair, err := tls.X509KeyPair(cert, key)
	return &pair, err
}

// authorities are those that clients are told of and checked with.
func (g *Guest) authorities() *x509.CertPool {
	var live corev1.ConfigMap
	pool := x509.NewCertPool()
	if g.API.Get(AdminCA, &live) {
		pool.AppendCertsFromPEM([]byte(live.Data["ca-bundle.crt"]))
	}
	return pool
}

// admits refuses as a real API server does: who shows a certificate that it
// does not trust is unauthorized, who shows none is anonymous.
func (g *Guest) admits(w http.ResponseWriter, r *http.Request) bool {
	if len(r.TLS.PeerCertificates) == 0 {
		fakeapi.Refuse(w, http.StatusForbidden, `nodes is forbidden: User "system:anonymous" cannot list resource "nodes"`)
		return false
	}
	_, err := r.TLS.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: g.authorities(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		fakeapi.Refuse(w, http.StatusUnauthorized, "Unauthorized")
	}
	return err == nil
}

func (g *Guest) serve(w http.ResponseWriter, r *http.Request) {
	if !g.admits(w, r) {
		return
	}
	g.react()
	if r.Method == http.MethodGet && g.list(w, r.URL.Path) {
		return
	}
	if r.Method != http.MethodGet {
		g.note(r.Method + " " + r.URL.Path)
	}
	if path, ok := strings.CutSuffix(r.URL.Path, "/approval"); ok {
		r.URL.Path = path
	}
	g.API.ServeHTTP(w, r)
	g.react()
}

// list serves what the plain fake API cannot: lists and operators.
func (g *Guest) list(w http.ResponseWriter, path string) bool {
	var items []any
	switch path {
	case "/api/v1/nodes":
		items = g.existing(Node)
	case strings.TrimSuffix(CSRs, "/"):
		items = g.existing(CSRs+"csr-foreign-user", CSRs+"csr-foreign-signer", CSRs+"csr-1", CSRs+"csr-2", CSRs+"csr-3")
	case "/apis/coordination.k8s.io/v1/leases":
		items = g.existing(staleLease, otherLease)
	case operators:
		items = g.look()
	case operators + "/kube-apiserver":
		answer(w, g.look()[0])
		return true
	default:
		return false
	}
	answer(w, fakeapi.Object{"kind": "List", "apiVersion": "v1", "items": items})
	return true
}

func (g *Guest) existing(paths ...string) []any {
	items := []any{}
	for _, path := range paths {
		object := fakeapi.Object{}
		if g.API.Get(path, &object) {
			items = append(items, object)
		}
	}
	return items
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

var _ guest.Locator = (*Guest)(nil)
