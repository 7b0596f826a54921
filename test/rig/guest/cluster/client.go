package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"opdev.io/guestcluster/test/rig/guest/certs"
)

const callTimeout = 10 * time.Second

// resource names a kind as "group/version/plural" or "version/plural".
func resource(group, version, plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: plural}
}

// The kinds that the daemon works with.
var (
	configMaps       = resource("", "v1", "configmaps")
	secrets          = resource("", "v1", "secrets")
	nodes            = resource("", "v1", "nodes")
	leases           = resource("coordination.k8s.io", "v1", "leases")
	requests         = resource("certificates.k8s.io", "v1", "certificatesigningrequests")
	apiServers       = resource("config.openshift.io", "v1", "apiservers")
	clusterVersions  = resource("config.openshift.io", "v1", "clusterversions")
	clusterOperators = resource("config.openshift.io", "v1", "clusteroperators")
	machineConfigs   = resource("machineconfiguration.openshift.io", "v1", "machineconfigs")
	pools            = resource("machineconfiguration.openshift.io", "v1", "machineconfigpools")
)

// Config is the client configuration of the control plane's own identity.
func (r Root) Config(server string) *rest.Config {
	return &rest.Config{
		Host: server, QPS: 100, Burst: 200, Timeout: callTimeout,
		TLSClientConfig: rest.TLSClientConfig{
			CAFile:   r.Bundle(serverCA),
			CertFile: filepath.Join(r.Secret(controlPlane), "tls.crt"),
			KeyFile:  filepath.Join(r.Secret(controlPlane), "tls.key"),
		},
	}
}

// WriteControlPlaneKubeconfig is for the controller manager.
func (r Root) WriteControlPlaneKubeconfig(server string) error {
	operators, err := certs.Read(r.Secret(controlPlane))
	if err != nil {
		return fmt.Errorf("read the control plane's identity: %w", err)
	}
	ca, err := os.ReadFile(r.Bundle(serverCA))
	if err != nil {
		return err
	}
	return certs.Replace(r.Path("etc/kubernetes/control-plane.kubeconfig"), kubeconfigFor(server, ca, operators), 0o600)
}

// api is a thin layer over the dynamic client.
type api struct{ dynamic.Interface }

func newAPI(config *rest.Config) (api, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return api{}, fmt.Errorf("make a client: %w", err)
	}
	return api{client}, nil
}

// get returns nil for what does not exist.
func (a api) get(ctx context.Context, kind schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	o, err := a.Resource(kind).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get %s %s: %w", kind.Resource, name, err)
	}
	return o, nil
}

// patch merges fields into an object, or into its status.
func (a api) patch(ctx context.Context, kind schema.GroupVersionResource, namespace, name string, fields map[string]any, sub ...string) error {
	data, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	_, err = a.Resource(kind).Namespace(namespace).Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{}, sub...)
	if err != nil {
		return fmt.Errorf("patch %s %s: %w", kind.Resource, name, err)
	}
	return nil
}

func (a api) create(ctx context.Context, kind schema.GroupVersionResource, namespace string, o map[string]any) error {
	_, err := a.Resource(kind).Namespace(namespace).Create(ctx, &unstructured.Unstructured{Object: o}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create %s: %w", kind.Resource, err)
	}
	return nil
}
