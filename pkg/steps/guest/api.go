package guest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// APIName is the name in the guest's own API certificate.
	APIName = "api.crc.testing"
	// APIAddress is where the guest reaches its own API.
	APIAddress = "127.0.0.1:6443"

	requestTimeout = 20 * time.Second
	maxAnswer      = 16 << 20
)

// Dial reaches an address from within the guest.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// API is the guest's API server with one client certificate.
type API struct{ client *http.Client }

// NewAPI returns a client that trusts the CA alone, for the guest's own name.
// It speaks HTTP/1.1: a hanging connection is given up with its request.
func NewAPI(dial Dial, ca []byte, certificate tls.Certificate) (*API, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("the guest's kubeconfig holds no CA certificate")
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, ServerName: APIName, Certificates: []tls.Certificate{certificate}},
		DialContext:     func(ctx context.Context, network, _ string) (net.Conn, error) { return dial(ctx, network, APIAddress) },
		MaxIdleConns:    2, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: requestTimeout,
	}
	return &API{&http.Client{
		Timeout: requestTimeout, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Close ends idle connections: the next request shows its certificate anew.
func (a *API) Close() {
	if a != nil {
		a.client.CloseIdleConnections()
	}
}

// Get reads an object or a list.
func (a *API) Get(ctx context.Context, path string, into any) error {
	return a.do(ctx, http.MethodGet, path, "", nil, into)
}

// Create makes an object in a collection.
func (a *API) Create(ctx context.Context, collection string, object any) error {
	return a.do(ctx, http.MethodPost, collection, "application/json", object, nil)
}

// Patch changes the object that was read, and no later version of it.
func (a *API) Patch(ctx context.Context, path string, seen metav1.ObjectMeta, change map[string]any) error {
	change["metadata"] = map[string]any{"uid": seen.UID, "resourceVersion": seen.ResourceVersion}
	return a.do(ctx, http.MethodPatch, path, "application/merge-patch+json", change, nil)
}

// Delete removes an object; one that is gone already is fine.
func (a *API) Delete(ctx context.Context, path string) error {
	err := a.do(ctx, http.MethodDelete, path, "application/json", metav1.DeleteOptions{}, nil)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (a *API) do(ctx context.Context, verb, path, kind string, body, into any) error {
	request, err := newRequest(ctx, verb, path, kind, body)
	if err != nil {
		return err
	}
	response, err := a.client.Do(request)
	if err != nil {
		return fmt.Errorf("guest API: %w", err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("guest API: %s %s: %w", verb, path, err)
	case len(raw) > maxAnswer:
		return fmt.Errorf("guest API: %s %s: answer of more than %d bytes", verb, path, maxAnswer)
	case response.StatusCode > 299:
		return refusal(verb, path, response, raw)
	case into == nil:
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("guest API: %s %s: %w", verb, path, err)
	}
	return nil
}

func newRequest(ctx context.Context, verb, path, kind string, body any) (*http.Request, error) {
	var content io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		content = bytes.NewReader(raw)
	}
	request, err := http.NewRequestWithContext(ctx, verb, "https://"+APIName+":6443"+path, content)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "guestcluster-steps")
	if kind != "" {
		request.Header.Set("Content-Type", kind)
	}
	return request, nil
}

// refusal keeps the server's Status, so that apierrors understands it.
func refusal(verb, path string, response *http.Response, raw []byte) error {
	status := &apierrors.StatusError{}
	if json.Unmarshal(raw, &status.ErrStatus) != nil || status.ErrStatus.Kind != "Status" {
		status.ErrStatus = metav1.Status{Code: int32(response.StatusCode), Message: response.Status}
	}
	status.ErrStatus.Message = said(status.ErrStatus.Message)
	return fmt.Errorf("guest API: %s %s: %w", verb, path, status)
}
