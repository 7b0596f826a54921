package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

const configNamespace = "openshift-config"

// syncTrust rebuilds the bundle that client certificates are checked with; the
// API server reloads it by itself.
func (c *Cluster) syncTrust(ctx context.Context) error {
	bundle, err := os.ReadFile(c.root.Bundle(operatorCA))
	if err != nil {
		return fmt.Errorf("read the operators' authorities: %w", err)
	}
	names := []string{"admin-kubeconfig-client-ca"}
	server, err := c.api.get(ctx, apiServers, "", "cluster")
	if err != nil {
		return err
	}
	if server != nil {
		if name, _, _ := unstructured.NestedString(server.Object, "spec", "clientCA", "name"); name != "" {
			names = append(names, name)
		}
	}
	for _, name := range names {
		cm, err := c.api.get(ctx, configMaps, configNamespace, name)
		if err != nil {
			return err
		}
		if cm != nil {
			text, _, _ := unstructured.NestedString(cm.Object, "data", "ca-bundle.crt")
			bundle = append(append(bundle, text...), '\n')
		}
	}
	old, err := os.ReadFile(c.root.Bundle(clientCA))
	if err == nil && bytes.Equal(old, bundle) {
		return nil
	}
	return c.root.writeBundle(clientCA, bundle)
}

// ready asks the API server's own readiness check.
func ready(ctx context.Context, root Root, server string) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	client, err := rest.HTTPClientFor(root.Config(server))
	if err != nil {
		return false
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/readyz", nil)
	if err != nil {
		return false
	}
	answer, err := client.Do(request)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err == nil && answer.StatusCode == http.StatusOK
}
