package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	"github.com/tektoncd/pipeline/pkg/client/clientset/versioned"
	"github.com/tektoncd/pipeline/pkg/client/informers/externalversions"
	listers "github.com/tektoncd/pipeline/pkg/client/listers/pipeline/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/system"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/runs"
)

// NotFoundError says which Pipeline is missing where.
type NotFoundError struct {
	// Namespace is where it must be; Name is the Pipeline's.
	Namespace, Name string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("Pipeline %q is not in namespace %s: apply it there", e.Name, e.Namespace)
}

// Catalog reads Pipelines and Tasks from informers on two namespaces: the
// controller's, for provisioning, and that of the bundles.
type Catalog struct {
	provisioning, bundles shelf
	virtualization
}

// shelf is one namespace.
type shelf struct {
	namespace string
	informers []cache.SharedIndexInformer
	pipelines listers.PipelineNamespaceLister
	tasks     listers.TaskNamespaceLister
}

// New makes a Catalog. It must be started.
func New(ctx context.Context, client versioned.Interface) *Catalog {
	return &Catalog{
		provisioning:   newShelf(ctx, client, system.Namespace()),
		bundles:        newShelf(ctx, client, guestcluster.BundleNamespace),
		virtualization: virtualization{discovery: client.Discovery()},
	}
}

func newShelf(ctx context.Context, client versioned.Interface, namespace string) shelf {
	v1 := externalversions.NewSharedInformerFactoryWithOptions(client,
		controller.GetResyncPeriod(ctx), externalversions.WithNamespace(namespace)).Tekton().V1()
	return shelf{
		namespace: namespace,
		informers: []cache.SharedIndexInformer{v1.Pipelines().Informer(), v1.Tasks().Informer()},
		pipelines: v1.Pipelines().Lister().Pipelines(namespace),
		tasks:     v1.Tasks().Lister().Tasks(namespace),
	}
}

func (c *Catalog) informers() []cache.SharedIndexInformer {
	return slices.Concat(c.provisioning.informers, c.bundles.informers)
}

// Start fills the catalog and returns when it can be read.
func (c *Catalog) Start(stop <-chan struct{}) error {
	var all []controller.Informer
	for _, informer := range c.informers() {
		all = append(all, informer)
	}
	return controller.StartInformers(stop, all...)
}

// AddHandler calls back after every change of a Pipeline or Task.
func (c *Catalog) AddHandler(changed func()) error {
	for _, informer := range c.informers() {
		if _, err := informer.AddEventHandler(controller.HandleAll(func(any) { changed() })); err != nil {
			return fmt.Errorf("watch Pipelines and Tasks: %w", err)
		}
	}
	return nil
}

// Lookup returns a provisioning Pipeline and those of its Tasks that exist, by
// name. The error is a *NotFoundError when there is no such Pipeline.
func (c *Catalog) Lookup(name string) (*pipelinev1.Pipeline, map[string]*pipelinev1.Task, error) {
	return c.provisioning.lookup(name)
}

// PrepareBundle is Lookup for the Pipeline that prepares bundles.
func (c *Catalog) PrepareBundle() (*pipelinev1.Pipeline, map[string]*pipelinev1.Task, error) {
	return c.bundles.lookup(runs.PrepareBundle)
}

func (s shelf) lookup(name string) (*pipelinev1.Pipeline, map[string]*pipelinev1.Task, error) {
	pipeline, err := s.pipelines.Get(name)
	if apierrors.IsNotFound(err) {
		return nil, nil, &NotFoundError{Namespace: s.namespace, Name: name}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read Pipeline %s: %w", name, err)
	}
	tasks := map[string]*pipelinev1.Task{}
	for _, list := range [][]pipelinev1.PipelineTask{pipeline.Spec.Tasks, pipeline.Spec.Finally} {
		for _, task := range list {
			if task.TaskRef == nil || task.TaskRef.Name == "" {
				continue
			}
			if found, err := s.tasks.Get(task.TaskRef.Name); err == nil {
				tasks[task.TaskRef.Name] = found
			}
		}
	}
	return pipeline, tasks, nil
}

// Check says whether instances can be made: the Pipeline exists and keeps the
// contract for this template. Reason tells what kind of error it was.
func (c *Catalog) Check(kind v1alpha1.ClusterType, p *v1alpha1.Provisioning, template *v1alpha1.ClusterTemplate) error {
	pipeline, tasks, err := c.Lookup(v1alpha1.PipelineName(kind, p))
	if err != nil {
		return err
	}
	return runs.Validate(kind, pipeline, tasks, template)
}

// Reason is the condition reason of an error of this package; empty for any other error.
func Reason(err error) v1alpha1.Reason {
	var missing *NotFoundError
	var invalid *runs.InvalidError
	var unserved *VirtualizationError
	switch {
	case errors.As(err, &missing):
		return v1alpha1.ReasonPipelineNotFound
	case errors.As(err, &invalid):
		return v1alpha1.ReasonPipelineInvalid
	case errors.As(err, &unserved):
		return v1alpha1.ReasonVirtualizationMissing
	default:
		return ""
	}
}
