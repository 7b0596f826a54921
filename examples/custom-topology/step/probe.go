package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/steps/step"
)

// probe asks the guest API whether it is ready, trusting the instance's
// identity and nothing else.
type probe struct{ client *http.Client }

func newProbe(dir, host string) (*probe, error) {
	ca, err := os.ReadFile(filepath.Join(dir, guestcluster.ServingCAKey))
	if err != nil {
		return nil, step.InfraError("read identity: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, step.InfraError("identity: %s holds no certificate", guestcluster.ServingCAKey)
	}
	admin, err := tls.LoadX509KeyPair(filepath.Join(dir, guestcluster.AdminCertKey), filepath.Join(dir, guestcluster.AdminKeyKey))
	if err != nil {
		return nil, step.InfraError("identity: %s and %s are no key pair", guestcluster.AdminCertKey, guestcluster.AdminKeyKey)
	}
	// The certificate is good for the host, the request goes to the pod.
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{admin}, ServerName: host}
	return &probe{&http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: config}}}, nil
}

func (p *probe) ready(ctx context.Context, ip string) error {
	url := "https://" + net.JoinHostPort(ip, strconv.Itoa(apiPort)) + "/readyz"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET /readyz: %s", response.Status)
	}
	return nil
}
