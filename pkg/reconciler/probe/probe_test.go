package probe

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
)

// fakeGuest answers like an API server; its fields make it misbehave.
type fakeGuest struct {
	mu         sync.Mutex
	version    http.HandlerFunc
	noAccounts bool
	namespaces map[string]bool
	token      string
}

func (g *fakeGuest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.token = r.Header.Get("Authorization")
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.URL.Path == "/version" && g.version != nil:
		g.version(w, r)
	case r.URL.Path == "/version":
		fmt.Fprint(w, `{"gitVersion":"v1.32.0"}`)
	case r.Method == http.MethodPost && r.URL.Path == "/api/v1/namespaces":
		g.namespaces["made"] = true
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, "{}")
	case r.Method == http.MethodDelete && len(path) == 4 && strings.HasPrefix(path[3], "guestcluster-probe-"):
		delete(g.namespaces, "made")
		fmt.Fprint(w, "{}")
	case len(path) == 6 && path[5] == "default" && !g.noAccounts:
		fmt.Fprint(w, "{}")
	default:
		http.NotFound(w, r)
	}
}

// serve starts a TLS server and a dialer that leads every address to it.
func serve(t *testing.T, h http.Handler) (ca []byte, o Options) {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = nil
	server.StartTLS()
	t.Cleanup(server.Close)
	ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return ca, Options{Clock: clock.RealClock{}, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}}
}

// exampleEndpoint is a name that httptest's certificate is good for.
const exampleEndpoint = "https://example.com"

func kubeconfig(t *testing.T, server string, change func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) []byte {
	t.Helper()
	cluster, user := &clientcmdapi.Cluster{Server: server}, &clientcmdapi.AuthInfo{Token: "top-secret"}
	if change != nil {
		change(cluster, user)
	}
	raw, err := clientcmd.Write(clientcmdapi.Config{
		CurrentContext: "c",
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u"}},
		Clusters:       map[string]*clientcmdapi.Cluster{"c": cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": user},
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestProbeAnswers(t *testing.T) {
	guest := &fakeGuest{namespaces: map[string]bool{}}
	ca, o := serve(t, guest)
	config := kubeconfig(t, exampleEndpoint+":443", func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.CertificateAuthorityData = ca })
	if err := Probe(t.Context(), config, exampleEndpoint, o, true); err != nil {
		t.Fatal(err)
	}
	if guest.token != "Bearer top-secret" {
		t.Errorf("the token was not used: %q", guest.token)
	}
	if len(guest.namespaces) != 0 {
		t.Error("the probe's namespace was left behind")
	}
}

func TestProbeFails(t *testing.T) {
	rows := map[string]struct {
		guest *fakeGuest
		noCA  bool
		want  string
	}{
		"a redirect is not followed": {&fakeGuest{version: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://example.com/api", http.StatusFound)
		}}, false, "status 302"},
		"an error status": {&fakeGuest{version: func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "top-secret", http.StatusServiceUnavailable)
		}}, false, "status 503"},
		"an answer without end": {&fakeGuest{version: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 2*maxResponse))
		}}, false, "larger than"},
		"a login page":         {&fakeGuest{version: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }}, false, "not JSON"},
		"another JSON":         {&fakeGuest{version: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }}, false, "not a Kubernetes version"},
		"an unknown authority": {&fakeGuest{}, true, "certificate"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			ca, o := serve(t, row.guest)
			config := kubeconfig(t, exampleEndpoint, func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
				if !row.noCA {
					c.CertificateAuthorityData = ca
				}
			})
			err := Probe(t.Context(), config, exampleEndpoint, o, false)
			if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "top-secret") {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}

func TestProbeWaitsForTheServiceAccount(t *testing.T) {
	guest := &fakeGuest{namespaces: map[string]bool{}, noAccounts: true}
	ca, o := serve(t, guest)
	config := kubeconfig(t, exampleEndpoint, func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.CertificateAuthorityData = ca })
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := Probe(ctx, config, exampleEndpoint, o, true)
	if err == nil || !strings.Contains(err.Error(), "no default ServiceAccount") {
		t.Errorf("got %v", err)
	}
	if len(guest.namespaces) != 0 {
		t.Error("the probe's namespace was left behind")
	}
}

func TestPoolCountsMisses(t *testing.T) {
	var broken, unreadable atomic.Bool
	guest := &fakeGuest{version: func(w http.ResponseWriter, _ *http.Request) {
		if broken.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, `{"gitVersion":"v1"}`)
	}}
	ca, o := serve(t, guest)
	config := kubeconfig(t, exampleEndpoint, func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.CertificateAuthorityData = ca })
	told := make(chan types.NamespacedName, 1)
	pool := Start(t.Context(), o, func(key types.NamespacedName) { told <- key })
	key := types.NamespacedName{Namespace: "a", Name: "p-0"}
	probe := func(uid types.UID) Result {
		pool.Request(key, Target{UID: uid, Endpoint: exampleEndpoint, Kubeconfig: func(context.Context) ([]byte, error) {
			if unreadable.Load() {
				return nil, errors.New("API server is away")
			}
			return config, nil
		}})
		if got := <-told; got != key {
			t.Fatalf("told of %s", got)
		}
		r, ok := pool.Result(key, uid)
		if !ok {
			t.Fatal("no result")
		}
		return r
	}
	broken.Store(true)
	probe("one")
	if got := probe("one"); got.Misses != 2 || got.Err == nil {
		t.Errorf("after two misses: %+v", got)
	}
	unreadable.Store(true)
	if got := probe("one"); got.Misses != 2 || got.Err == nil {
		t.Errorf("our own API server's fault counts as a miss: %+v", got)
	}
	unreadable.Store(false)
	if got := probe("two"); got.Misses != 1 {
		t.Errorf("another UID starts anew: %+v", got)
	}
	broken.Store(false)
	if got := probe("two"); got.Misses != 0 || got.Err != nil {
		t.Errorf("after an answer: %+v", got)
	}
	if got, ok := pool.Result(key, "one"); ok || got != (Result{}) {
		t.Errorf("the result of another UID is returned: %+v", got)
	}
	pool.Forget(key)
	if _, ok := pool.Result(key, "two"); ok {
		t.Error("a forgotten result is returned")
	}
}
