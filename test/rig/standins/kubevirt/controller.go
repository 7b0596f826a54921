package kubevirt

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"opdev.io/guestcluster/test/rig/standins/cdi"
	"opdev.io/guestcluster/test/rig/standins/faults"
	"opdev.io/guestcluster/test/rig/standins/loop"
	"opdev.io/guestcluster/test/rig/standins/objects"
)

// User is who makes the launcher pods, as in a real cluster: quotas and
// security policies see it.
const User = "system:serviceaccount:kubevirt:kubevirt-controller"

// retryInterval is for pods that the API server refused.
const retryInterval = 5 * time.Second

// Controller runs VirtualMachines.
type Controller struct {
	Changes *loop.Changes
	images  Images
	// launchers makes pods in the name of User.
	launchers kubernetes.Interface
	dynamic   dynamic.Interface
	recorder  record.EventRecorder
	refusals  map[types.UID]string

	machines   cache.GenericLister
	instances  cache.GenericLister
	volumes    cache.GenericLister
	namespaces corelisters.NamespaceLister
	claims     corelisters.PersistentVolumeClaimLister
	pods       corelisters.PodLister
}

// New returns a controller that watches what it decides on.
func New(c cdi.Clients, launchers kubernetes.Interface, images Images) *Controller {
	changes := loop.NewChanges()
	core := c.Watch.Core().V1()
	machines, instances, volumes := c.Objects.ForResource(Machines), c.Objects.ForResource(Instances), c.Objects.ForResource(cdi.Resource)
	for _, informer := range []cache.SharedIndexInformer{
		machines.Informer(), instances.Informer(), volumes.Informer(),
		core.Namespaces().Informer(), core.PersistentVolumeClaims().Informer(), core.Pods().Informer(),
	} {
		_, _ = informer.AddEventHandler(changes)
	}
	return &Controller{
		Changes: changes, images: images, launchers: launchers, dynamic: c.Dynamic, recorder: c.Recorder,
		refusals: map[types.UID]string{},
		machines: machines.Lister(), instances: instances.Lister(), volumes: volumes.Lister(),
		namespaces: core.Namespaces().Lister(), claims: core.PersistentVolumeClaims().Lister(), pods: core.Pods().Lister(),
	}
}

// Reconcile takes every machine and every instance one step further.
func (c *Controller) Reconcile(ctx context.Context) error {
	var failures []error
	instances, err := c.instances.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list instances: %w", err)
	}
	for _, object := range instances {
		read, err := objects.Read[instance](object)
		if err == nil {
			err = c.stepInstance(ctx, object, read)
		}
		failures = append(failures, err)
	}
	machines, err := c.machines.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list machines: %w", err)
	}
	for _, object := range machines {
		read, err := objects.Read[machine](object)
		if err == nil {
			err = c.stepMachine(ctx, object, read)
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// disksOf are the DataVolumes and the claims below an instance's volumes.
func (c *Controller) disksOf(namespace string, spec instanceSpec) (volumes []*cdi.DataVolume, missing string, unbound bool, err error) {
	for _, v := range spec.Volumes {
		name := v.claim()
		if name == "" {
			continue
		}
		claim, err := c.claims.PersistentVolumeClaims(namespace).Get(name)
		switch {
		case apierrors.IsNotFound(err):
			missing = name
		case err != nil:
			return nil, "", false, err
		default:
			unbound = unbound || claim.Status.Phase != corev1.ClaimBound
		}
		// A claim made by a DataVolume is only ready when that is.
		object, err := c.volumes.ByNamespace(namespace).Get(name)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, "", false, err
		}
		found, err := objects.Read[cdi.DataVolume](object)
		if err != nil {
			return nil, "", false, err
		}
		volumes = append(volumes, found)
	}
	return volumes, missing, unbound, nil
}

// podsOf finds the instance's pods by their owner, as KubeVirt does.
func (c *Controller) podsOf(i *instance) (launcher, temporary *corev1.Pod, err error) {
	pods, err := c.pods.Pods(i.Namespace).List(labels.SelectorFromSet(labels.Set{labelCreatedBy: string(i.UID)}))
	if err != nil {
		return nil, nil, err
	}
	for _, pod := range pods {
		switch {
		case !metav1.IsControlledBy(pod, i):
		case pod.Annotations[annotationTemporary] != "":
			temporary = pod
		default:
			launcher = pod
		}
	}
	return launcher, temporary, nil
}

// faultsOf are those of the namespace and of the machine, whose annotations do
// not reach the instance.
func (c *Controller) faultsOf(namespace, name string) faults.Faults {
	var above, own map[string]string
	if found, err := c.namespaces.Get(namespace); err == nil {
		above = found.Annotations
	}
	if found, err := c.machines.ByNamespace(namespace).Get(name); err == nil {
		if read, err := objects.Read[machine](found); err == nil {
			own = read.Annotations
		}
	}
	return faults.Of(above, own)
}
