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
	var openshift clusterVersion
	version := kubernetes.GitVersion
	err := g.get(ctx, "/apis/config.openshift.io/v1/clusterversions/version", &openshift)
	if err == nil {
		version, err = openshift.completed()
	}
	if err != nil && !errors.Is(err, errNotServed) {
		return "", err
	}
	version = strings.TrimPrefix(version, "v")
	if version == "" || len(version) > 63 {
		return "", fmt.Errorf("the guest does not tell its version yet")
	}
	return version, nil
}

// clusterVersion is what is read of OpenShift's ClusterVersion.
type clusterVersion struct {
	Status struct {
		Desired release `json:"desired"`
		// History has the newest first.
		History []release `json:"history"`
	} `json:"status"`
}

type release struct {
	State   string `json:"state"`
	Version string `json:"version"`
}

// completed is the version that runs: the desired one may be on its way.
func (v *clusterVersion) completed() (string, error) {
	for _, r := range v.Status.History {
		if r.State == "Completed" && r.Version != "" {
			return r.Version, nil
		}
	}
	return "", fmt.Errorf("the guest's ClusterVersion has no Completed entry in its history: version %q is on its way, or failing: see the guest's operators",
		v.Status.Desired.Version)
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
