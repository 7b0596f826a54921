package probe

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/utils/clock"
)

const (
	requestTimeout   = 5 * time.Second
	namespaceTimeout = 30 * time.Second
	namespacePoll    = 500 * time.Millisecond
	maxResponse      = 1 << 20
)

// DialFunc opens a connection.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// guest is one API server, reached at its assigned endpoint only.
type guest struct {
	client   *http.Client
	endpoint string
	token    string
	clock    clock.Clock
}

func newGuest(c *Credentials, endpoint string, dial DialFunc, clk clock.Clock) (*guest, error) {
	config, err := c.tlsConfig()
	if err != nil {
		return nil, err
	}
	return &guest{
		endpoint: strings.TrimRight(endpoint, "/"), token: c.Token, clock: clk,
		client: &http.Client{
			Timeout: requestTimeout,
			Transport: &http.Transport{
				Proxy: nil, DialContext: dial, TLSClientConfig: config, TLSHandshakeTimeout: requestTimeout,
				MaxIdleConns: 1, MaxResponseHeaderBytes: 64 << 10,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

func (c *Credentials) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(c.CA) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(c.CA) {
			return nil, errors.New("the kubeconfig's certificate-authority-data holds no certificate")
		}
	}
	if len(c.Cert) > 0 {
		pair, err := tls.X509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, errors.New("the kubeconfig's client certificate and key do not fit together")
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func (g *guest) close() { g.client.CloseIdleConnections() }

// version proves that the API server answers; it returns what it says it is.
func (g *guest) version(ctx context.Context) error {
	var info struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := g.do(ctx, http.MethodGet, "/version", nil, &info); err != nil {
		return err
	}
	if info.GitVersion == "" {
		return errors.New("GET /version: the answer is not a Kubernetes version")
	}
	return nil
}

// controllers proves that the guest's controllers work: a new namespace gets
// its default ServiceAccount.
func (g *guest) controllers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, namespaceTimeout)
	defer cancel()
	name := "guestcluster-probe-" + strings.ToLower(rand.Text()[:8])
	body := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]string{"name": name}}
	if err := g.do(ctx, http.MethodPost, "/api/v1/namespaces", body, nil); err != nil {
		return err
	}
	waitErr := g.awaitServiceAccount(ctx, name)
	clean, cancelClean := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancelClean()
	return errors.Join(waitErr, g.do(clean, http.MethodDelete, "/api/v1/namespaces/"+name, nil, nil))
}

func (g *guest) awaitServiceAccount(ctx context.Context, namespace string) error {
	for {
		err := g.do(ctx, http.MethodGet, "/api/v1/namespaces/"+namespace+"/serviceaccounts/default", nil, nil)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("a new namespace got no default ServiceAccount within %s: %w", namespaceTimeout, err)
		case <-g.clock.After(namespacePoll):
		}
	}
}

// do makes one request; errors name method, path and status, never a body.
func (g *guest) do(ctx context.Context, method, path string, body, into any) error {
	request, err := g.request(ctx, method, path, body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	response, err := g.client.Do(request)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, cause(err))
	}
	defer response.Body.Close()
	limited := io.LimitReader(response.Body, maxResponse+1)
	raw, err := io.ReadAll(limited)
	switch {
	case err != nil:
		return fmt.Errorf("%s %s: read answer: %w", method, path, err)
	case len(raw) > maxResponse:
		return fmt.Errorf("%s %s: the answer is larger than %d bytes", method, path, maxResponse)
	case response.StatusCode < 200 || response.StatusCode > 299:
		return fmt.Errorf("%s %s: status %d", method, path, response.StatusCode)
	case into == nil:
		return nil
	}
	if json.Unmarshal(raw, into) != nil {
		return fmt.Errorf("%s %s: the answer is not JSON", method, path)
	}
	return nil
}

func (g *guest) request(ctx context.Context, method, path string, body any) (*http.Request, error) {
	var reader io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		reader = bytes.NewReader(raw)
	}
	request, err := http.NewRequestWithContext(ctx, method, g.endpoint+path, reader)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "guestcluster-probe")
	if g.token != "" {
		request.Header.Set("Authorization", "Bearer "+g.token)
	}
	return request, nil
}

// cause strips the URL that http.Client repeats.
func cause(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}
