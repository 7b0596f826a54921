package catalog

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// fakeDiscovery serves the resources, or fails.
type fakeDiscovery struct {
	served []string
	err    error
}

func (f fakeDiscovery) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	if f.err != nil {
		return nil, f.err
	}
	list := &metav1.APIResourceList{}
	for _, name := range f.served {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
	}
	return list, nil
}

func TestWaitServed(t *testing.T) {
	rows := map[string]struct {
		discovery fakeDiscovery
		says      string
	}{
		"all is there":  {fakeDiscovery{served: []string{"pipelines", "tasks", "pipelineruns", "taskruns", "taskruns/status", "customruns"}}, ""},
		"no Tekton":     {fakeDiscovery{err: apierrors.NewNotFound(schema.GroupResource{}, "")}, "Tekton Pipelines is not installed: install it; waiting"},
		"half of it":    {fakeDiscovery{served: []string{"pipelines", "tasks", "taskruns"}}, "no pipelineruns"},
		"no CustomRuns": {fakeDiscovery{served: []string{"pipelines", "tasks", "pipelineruns", "taskruns"}}, "API tekton.dev/v1beta1: it has no customruns"},
		"no API server": {fakeDiscovery{err: errors.New("connection refused")}, "cannot ask"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			said := ""
			err := WaitServed(ctx, row.discovery, func(text string) { said += text; cancel() })
			if (err == nil) != (row.says == "") || !strings.Contains(said, row.says) || (row.says == "" && said != "") {
				t.Errorf("error %v, said %q", err, said)
			}
		})
	}
}
