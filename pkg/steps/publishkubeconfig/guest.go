package publishkubeconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// maxAnswer bounds what is read of an answer: the guest is not trusted.
const maxAnswer = 1 << 20

// errNotServed says that the guest does not know the path.
var errNotServed = errors.New("not served")

// guest asks the guest API.
type guest struct {
	client *http.Client
	base   string
}

// newGuest asks through no proxy, follows no redirect and is quick to give up
// on one request.
func newGuest(id *identity, base string, dial func(ctx context.Context, network, address string) (net.Conn, error)) (*guest, error) {
	tlsConfig, err := id.tlsConfig()
	if err != nil {
		return nil, err
	}
	return &guest{base: base, client: &http.Client{
		Timeout:       5 * time.Second,
		Transport:     &http.Transport{TLSClientConfig: tlsConfig, DialContext: dial, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// version is what the guest says it runs: OpenShift's version if it has one,
// else the Kubernetes version, without a leading v.
func (g *guest) version(ctx context.Context) (string, error) {
	var kubernetes struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := g.get(ctx, "/version", &kubernetes); err != nil {
		return "", err
	}
	var openshift struct {
		Status struct {
			Desired struct {
				Version string `json:"version"`
			} `json:"desired"`
		} `json:"status"`
	}
	version := kubernetes.GitVersion
	err := g.get(ctx, "/apis/config.openshift.io/v1/clusterversions/version", &openshift)
	if err == nil {
		version = openshift.Status.Desired.Version
	} else if !errors.Is(err, errNotServed) {
		return "", err
	}
	version = strings.TrimPrefix(version, "v")
	if version == "" || len(version) > 63 {
		return "", fmt.Errorf("the guest does not tell its version yet")
	}
	return version, nil
}

func (g *guest) get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, g.base+path, nil)
	if err != nil {
		return err
	}
	response, err := g.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
		return json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(into)
	case http.StatusNotFound:
		return fmt.Errorf("GET %s: %w", path, errNotServed)
	}
	return fmt.Errorf("GET %s: %s", path, response.Status)
}
