package bundle

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"opdev.io/guestcluster/pkg/steps/step"
)

// Bounds on how long a server may be silent, how often it is asked again, and
// how often it may send the step elsewhere.
const (
	dialTimeout  = 20 * time.Second
	stallTimeout = time.Minute
	maxTries     = 6
	maxRedirects = 5
)

// Mirror downloads from the hosts that a Source allows.
type Mirror struct {
	// Source says what is wanted.
	Source Source
	// Progress takes lines for people.
	Progress io.Writer
	// Pause is the back-off between tries.
	Pause wait.Backoff
	// Now is the clock.
	Now func() time.Time

	client *http.Client
	max    int64
}

// NewMirror makes a client that trusts the system's CAs and the Source's own.
// dial reaches hosts; nil is the network.
func NewMirror(source Source, progress io.Writer, pause wait.Backoff, now func() time.Time, dial func(context.Context, string, string) (net.Conn, error)) (*Mirror, error) {
	size, err := source.maxBytes()
	if err != nil {
		return nil, err
	}
	trusted, err := trust(source.CABundle)
	if err != nil {
		return nil, err
	}
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext
	}
	m := &Mirror{Source: source, Progress: progress, Pause: pause, Now: now, max: size}
	m.client = &http.Client{
		CheckRedirect: m.follow,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: dial,
			TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusted},
			TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: stallTimeout,
			ForceAttemptHTTP2: true, DisableCompression: true,
		},
	}
	return m, nil
}

// trust adds a file of certificates to the system's. It may be missing or
// empty: a cluster without CAs of its own has nothing to put there.
func trust(file string) (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if file == "" {
		return pool, nil
	}
	raw, err := os.ReadFile(file)
	switch {
	case errors.Is(err, os.ErrNotExist) || (err == nil && len(raw) == 0):
		return pool, nil
	case err != nil:
		return nil, step.InfraError("read trusted CAs: %w", err)
	case !pool.AppendCertsFromPEM(raw):
		return nil, step.UserError("ConfigMap trusted-ca: ca-bundle.crt holds no PEM certificate")
	}
	return pool, nil
}

// follow lets a server send the step only to allowed hosts, by https.
func (m *Mirror) follow(request *http.Request, before []*http.Request) error {
	if len(before) > maxRedirects {
		return step.UserError("%s: more than %d redirects", before[0].URL, maxRedirects)
	}
	return m.check(request)
}

func (m *Mirror) check(request *http.Request) error {
	u := request.URL
	if u.Scheme != "https" {
		return step.UserError("%s://%s: only https is allowed", u.Scheme, u.Host)
	}
	if !m.Source.allows(u.Hostname()) {
		return step.UserError("host %s is not allowed; if you trust it, give the bundle's URL on that host", u.Hostname())
	}
	return nil
}

// get sends one request; offset asks for the rest of a file of which etag tells
// the version. Final errors are for people, others are worth another try.
func (m *Mirror) get(ctx context.Context, url string, offset int64, etag string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, step.UserError("%s: %w", url, err)
	}
	request.Header.Set("User-Agent", "guestcluster-steps")
	if offset > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
		if etag != "" {
			request.Header.Set("If-Range", etag)
		}
	}
	if err := m.check(request); err != nil {
		return nil, err
	}
	response, err := m.client.Do(request)
	if err != nil {
		return nil, classify(err)
	}
	if err := m.judge(url, response); err != nil {
		response.Body.Close()
		return nil, err
	}
	return response, nil
}

// classify tells errors that trying again cannot mend.
func classify(err error) error {
	var untrusted *tls.CertificateVerificationError
	switch {
	case step.Final(err):
		return err
	case errors.As(err, &untrusted):
		return step.UserError("%w; if the server is right, put its CA into ConfigMap trusted-ca, key ca-bundle.crt", err)
	}
	return err
}

func (m *Mirror) judge(url string, response *http.Response) error {
	switch code := response.StatusCode; {
	case code == http.StatusOK, code == http.StatusPartialContent:
		return nil
	case code == http.StatusNotFound, code == http.StatusGone:
		return step.UserError("%s: %s: the mirror has no such bundle; which versions exist is seen at %s", url, response.Status, m.Source.versionsURL())
	case code >= 500, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout:
		return fmt.Errorf("%s: %s", url, response.Status)
	default:
		return step.UserError("%s: %s", url, response.Status)
	}
}
