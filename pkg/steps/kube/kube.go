package kube

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	client "opdev.io/guestcluster/pkg/client/clientset/versioned/typed/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/steps/step"
)

// InCluster is the configuration of the pod's ServiceAccount.
func InCluster() (*rest.Config, error) {
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, step.UserError("a step runs in a pod with a ServiceAccount: %w", err)
	}
	config.UserAgent = "guestcluster-steps"
	return config, nil
}

// connected is a step that gets its clients once its flags are parsed.
type connected struct {
	step.Runner
	connect func(*rest.Config) error
}

// Connected is a step that runs in a pod: connect gives it clients of the
// pod's ServiceAccount just before it runs, when its flags are known.
func Connected(runner step.Runner, connect func(*rest.Config) error) step.Runner {
	return connected{runner, connect}
}

// Run connects, then runs the step.
func (c connected) Run(ctx context.Context) error {
	config, err := InCluster()
	if err != nil {
		return err
	}
	if err := c.connect(config); err != nil {
		return err
	}
	return c.Runner.Run(ctx)
}

// Leases returns a client for the leases of a namespace.
func Leases(config *rest.Config, namespace string) (client.ClusterLeaseInterface, error) {
	c, err := client.NewForConfig(config)
	if err != nil {
		return nil, step.InfraError("make a client: %w", err)
	}
	return c.ClusterLeases(namespace), nil
}

// Secrets reads and patches the Secrets of one namespace.
type Secrets struct {
	rest      rest.Interface
	namespace string
}

// NewSecrets returns a client for the Secrets of a namespace.
func NewSecrets(config *rest.Config, namespace string) (*Secrets, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, step.InfraError("make a client: %w", err)
	}
	c := rest.CopyConfig(config)
	c.APIPath, c.GroupVersion = "/api", &corev1.SchemeGroupVersion
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	made, err := rest.RESTClientFor(c)
	if err != nil {
		return nil, step.InfraError("make a client: %w", err)
	}
	return &Secrets{rest: made, namespace: namespace}, nil
}

// Get reads a Secret.
func (s *Secrets) Get(ctx context.Context, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := s.rest.Get().Namespace(s.namespace).Resource("secrets").Name(name).Do(ctx).Into(secret)
	return secret, err
}

// SetData writes keys of a Secret if it is still the one that was read.
func (s *Secrets) SetData(ctx context.Context, seen *corev1.Secret, data map[string][]byte) error {
	patch, err := Guarded(seen.UID, seen.ResourceVersion, map[string]any{"data": data})
	if err != nil {
		return err
	}
	return s.rest.Patch(types.MergePatchType).Namespace(s.namespace).Resource("secrets").Name(seen.Name).Body(patch).Do(ctx).Error()
}

// Guarded is a merge patch that applies only to the object that was read.
func Guarded(uid types.UID, resourceVersion string, patch map[string]any) ([]byte, error) {
	patch["metadata"] = map[string]any{"uid": uid, "resourceVersion": resourceVersion}
	raw, err := json.Marshal(patch)
	if err != nil {
		return nil, step.InfraError("encode patch: %w", err)
	}
	return raw, nil
}

// Classify makes an API error final when trying again cannot help: rights are
// missing, the request is wrong, or the kind is not served. hint says what to
// do about missing rights.
func Classify(doing string, err error, hint string) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		return step.UserError("%s: %w; %s", doing, err, hint)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return step.UserError("%s: %w", doing, err)
	case apierrors.IsNotFound(err):
		return step.UserError("%s: %w", doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
