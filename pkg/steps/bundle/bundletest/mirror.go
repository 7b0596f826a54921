package bundletest

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
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Dir is the directory of Default's version on the mirror.
const Dir = "/pub/openshift-v4/clients/crc/bundles/openshift/" + Version + "/"

// Mirror is the public mirror, and every other host too.
type Mirror struct {
	// CABundle is a file with the CA that it is trusted by.
	CABundle string

	mu     sync.Mutex
	files  map[string][]byte
	calls  []string
	before func(http.ResponseWriter, *http.Request) bool
	addr   string
}

// Start serves Default and its checksum until the test ends.
func Start(t *testing.T) *Mirror {
	t.Helper()
	certificate, authority := certificate(t)
	m := &Mirror{files: map[string][]byte{}, CABundle: filepath.Join(t.TempDir(), "ca-bundle.crt")}
	if err := os.WriteFile(m.CABundle, authority, 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(m)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.Config.ErrorLog = nil
	server.StartTLS()
	t.Cleanup(server.Close)
	m.addr = server.Listener.Addr().String()
	m.Publish(Default())
	return m
}

// Dial reaches the mirror under every name.
func (m *Mirror) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, m.addr)
}

// Put serves a file under a path.
func (m *Mirror) Put(path string, content []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[path] = content
}

// Publish serves a bundle in Default's place, with the right checksum.
func (m *Mirror) Publish(bundle []byte) {
	m.Put(Dir+FileName, bundle)
	m.Put(Dir+"sha256sum.txt", []byte("00  crc_hyperv_4.19.3_amd64.crcbundle\n"+SHA256(bundle)+"  "+FileName+"\n11  "+FileName+".old\n"))
}

// Before runs ahead of each request; it may answer it and return true.
func (m *Mirror) Before(f func(http.ResponseWriter, *http.Request) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.before = f
}

// Calls lists the requests as "HOST PATH RANGE".
func (m *Mirror) Calls() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.calls...)
}

// ServeHTTP implements http.Handler.
func (m *Mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	m.calls = append(m.calls, r.Host+" "+r.URL.Path+" "+r.Header.Get("Range"))
	before := m.before
	m.mu.Unlock()
	if before != nil && before(w, r) {
		return
	}
	m.mu.Lock()
	content, found := m.files[r.URL.Path]
	m.mu.Unlock()
	if !found {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("ETag", `"`+SHA256(content)[:8]+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// Cut answers from an offset with the next few bytes of a file, then hangs up.
func (m *Mirror) Cut(w http.ResponseWriter, path string, offset, length int) {
	m.mu.Lock()
	content := m.files[path]
	m.mu.Unlock()
	w.Header().Set("Content-Length", fmt.Sprint(len(content)-offset))
	if offset > 0 {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", offset, len(content)-1, len(content)))
		w.WriteHeader(http.StatusPartialContent)
	}
	_, _ = w.Write(content[offset : offset+length])
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

func certificate(t *testing.T) (tls.Certificate, []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mirror"}, IsCA: true, BasicConstraintsValid: true,
		DNSNames:  []string{"mirror.openshift.com", "developers.redhat.com", "mirror.example.com", "elsewhere.example.com"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
