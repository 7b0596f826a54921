package catalog

import (
	"context"
	"fmt"
	"time"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	"github.com/tektoncd/pipeline/pkg/apis/pipeline/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
)

const servedPause = 5 * time.Second

// Discovery is the part of a discovery client that WaitServed needs.
type Discovery interface {
	ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error)
}

// WaitServed returns when the cluster serves Tekton's API, or with an error
// when ctx ends. Informers on an API that is absent never sync and do not say
// why: this says it, once.
func WaitServed(ctx context.Context, d Discovery, say func(string)) error {
	last := ""
	err := wait.PollUntilContextCancel(ctx, servedPause, true, func(context.Context) (bool, error) {
		missing := missingAPI(d)
		if missing != "" && missing != last {
			say(missing)
		}
		last = missing
		return missing == "", nil
	})
	if err != nil {
		return fmt.Errorf("wait for Tekton: %w", err)
	}
	return nil
}

// needed are the resources that informers and look-ups are made for.
var needed = []struct {
	version string
	names   []string
}{
	{pipelinev1.SchemeGroupVersion.String(), []string{"pipelines", "tasks", "pipelineruns", "taskruns"}},
	{v1beta1.SchemeGroupVersion.String(), []string{"customruns"}},
}

// missingAPI says what is missing; nothing when the controller can start.
func missingAPI(d Discovery) string {
	for _, n := range needed {
		resources, err := served(d, n.version)
		if apierrors.IsNotFound(err) {
			return fmt.Sprintf("Tekton Pipelines is not installed: install it; waiting for API %s", n.version)
		}
		if err != nil {
			return fmt.Sprintf("cannot ask whether Tekton Pipelines is installed, asking again: %v", err)
		}
		for _, name := range n.names {
			if !resources.Has(name) {
				return fmt.Sprintf("Tekton Pipelines is not installed: install it; waiting for API %s: it has no %s", n.version, name)
			}
		}
	}
	return ""
}

// Serves says whether the cluster serves a resource.
func Serves(d Discovery, resource schema.GroupVersionResource) (bool, error) {
	resources, err := served(d, resource.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask whether %s is served: %w", resource.GroupResource(), err)
	}
	return resources.Has(resource.Resource), nil
}

// served are the resources of an API.
func served(d Discovery, version string) (sets.Set[string], error) {
	list, err := d.ServerResourcesForGroupVersion(version)
	if err != nil {
		return nil, err
	}
	found := sets.New[string]()
	for _, resource := range list.APIResources {
		found.Insert(resource.Name)
	}
	return found, nil
}
