package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"opdev.io/guestcluster/pkg/steps/step"
)

// requestTimeout ends a request whose answer was lost, so that it is tried again.
const requestTimeout = 30 * time.Second

// Objects reads and writes the objects of one kind in one namespace. It speaks
// JSON and needs no scheme, so a kind costs the image only its Go types.
type Objects[T any] struct {
	rest                rest.Interface
	namespace, resource string
}

// NewObjects returns a client for a resource in a namespace.
func NewObjects[T any](config *rest.Config, resource schema.GroupVersionResource, namespace string) (*Objects[T], error) {
	group := resource.GroupVersion()
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"}) // for Status
	c := rest.CopyConfig(config)
	c.APIPath, c.GroupVersion, c.Timeout = "/apis", &group, requestTimeout
	if group.Group == "" {
		c.APIPath = "/api"
	}
	c.AcceptContentTypes, c.ContentType = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	made, err := rest.RESTClientFor(c)
	if err != nil {
		return nil, step.InfraError("make a client: %w", err)
	}
	return &Objects[T]{rest: made, namespace: namespace, resource: resource.Resource}, nil
}

// Get reads an object.
func (o *Objects[T]) Get(ctx context.Context, name string) (*T, error) {
	return decode[T](o.rest.Get().Namespace(o.namespace).Resource(o.resource).Name(name).Do(ctx))
}

// Create makes an object.
func (o *Objects[T]) Create(ctx context.Context, object *T) (*T, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, step.InfraError("encode object: %w", err)
	}
	return decode[T](o.rest.Post().Namespace(o.namespace).Resource(o.resource).Body(raw).Do(ctx))
}

// Patch applies a merge patch, such as one of Guarded.
func (o *Objects[T]) Patch(ctx context.Context, name string, patch []byte) (*T, error) {
	return decode[T](o.rest.Patch(types.MergePatchType).Namespace(o.namespace).Resource(o.resource).Name(name).Body(patch).Do(ctx))
}

// List reads the objects that a field selector matches, 500 at most.
func (o *Objects[T]) List(ctx context.Context, fields string) ([]T, error) {
	list, err := decode[struct {
		Items []T `json:"items"`
	}](o.rest.Get().Namespace(o.namespace).Resource(o.resource).Param("fieldSelector", fields).Param("limit", "500").Do(ctx))
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func decode[T any](result rest.Result) (*T, error) {
	if err := result.Error(); err != nil { // unlike Raw's, it holds the server's Status
		return nil, err
	}
	raw, err := result.Raw()
	if err != nil {
		return nil, err
	}
	into := new(T)
	if err := json.Unmarshal(raw, into); err != nil {
		return nil, fmt.Errorf("decode answer: %w", err)
	}
	return into, nil
}
