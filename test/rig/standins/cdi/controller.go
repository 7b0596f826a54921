package cdi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"opdev.io/guestcluster/test/rig/standins/faults"
	"opdev.io/guestcluster/test/rig/standins/loop"
	"opdev.io/guestcluster/test/rig/standins/objects"
	"opdev.io/guestcluster/test/rig/standins/volumes"
)

// pollInterval is CDI's own for what it waits for without an event.
const pollInterval = 2 * time.Second

// Controller fills DataVolumes.
type Controller struct {
	Changes *loop.Changes
	// authority is a PEM certificate that imports trust, as by importProxy of
	// CDI's configuration.
	authority []byte
	place     volumes.Place
	client    kubernetes.Interface
	dynamic   dynamic.Interface
	recorder  record.EventRecorder
	transfers *transfers
	// told is the last event about each DataVolume, lest every pass repeat it.
	told map[types.UID]telling

	dataVolumes cache.GenericLister
	namespaces  corelisters.NamespaceLister
	claims      corelisters.PersistentVolumeClaimLister
	volumes     corelisters.PersistentVolumeLister
	pods        corelisters.PodLister
	classes     storagelisters.StorageClassLister
}

// Clients is what a stand-in works with.
type Clients struct {
	Typed    kubernetes.Interface
	Dynamic  dynamic.Interface
	Watch    informers.SharedInformerFactory
	Objects  dynamicinformer.DynamicSharedInformerFactory
	Recorder record.EventRecorder
}

// New returns a controller that watches what it decides on.
func New(c Clients, place volumes.Place, authority []byte) *Controller {
	changes := loop.NewChanges()
	core, storage := c.Watch.Core().V1(), c.Watch.Storage().V1()
	dataVolumes := c.Objects.ForResource(Resource)
	for _, informer := range []cache.SharedIndexInformer{
		dataVolumes.Informer(), core.Namespaces().Informer(), core.PersistentVolumeClaims().Informer(),
		core.PersistentVolumes().Informer(), core.Pods().Informer(), storage.StorageClasses().Informer(),
	} {
		_, _ = informer.AddEventHandler(changes)
	}
	return &Controller{
		Changes: changes, authority: authority, place: place, client: c.Typed, dynamic: c.Dynamic, recorder: c.Recorder,
		transfers: newTransfers(changes), told: map[types.UID]telling{},
		dataVolumes: dataVolumes.Lister(),
		namespaces:  core.Namespaces().Lister(),
		claims:      core.PersistentVolumeClaims().Lister(),
		volumes:     core.PersistentVolumes().Lister(),
		pods:        core.Pods().Lister(),
		classes:     storage.StorageClasses().Lister(),
	}
}

// Reconcile takes every DataVolume one step further.
func (c *Controller) Reconcile(ctx context.Context) error {
	all, err := c.dataVolumes.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list DataVolumes: %w", err)
	}
	var failures []error
	alive := map[types.UID]bool{}
	for _, object := range all {
		volume, err := objects.Read[DataVolume](object)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		alive[volume.UID] = volume.DeletionTimestamp == nil
		if err := c.step(ctx, object, volume); err != nil {
			failures = append(failures, fmt.Errorf("DataVolume %s/%s: %w", volume.Namespace, volume.Name, err))
		}
	}
	c.transfers.forget(alive)
	maps.DeleteFunc(c.told, func(uid types.UID, _ telling) bool { return !alive[uid] })
	return errors.Join(append(failures, c.sweep(alive))...)
}

func (c *Controller) step(ctx context.Context, object runtime.Object, volume *DataVolume) error {
	if volume.DeletionTimestamp != nil {
		return c.release(ctx, volume)
	}
	f, err := c.observe(volume)
	if err != nil {
		return err
	}
	if prepared, err := c.prepare(ctx, object, f); prepared || err != nil {
		return err
	}
	d := decide(f, metav1.Now())
	if err := c.act(ctx, f, d); err != nil {
		return err
	}
	return c.writeStatus(ctx, object, d)
}

func (c *Controller) observe(volume *DataVolume) (facts, error) {
	f := facts{volume: volume, faults: c.faults(volume), transfer: c.transfers.state(volume.UID)}
	var err error
	if f.claim, err = c.claim(volume.Namespace, volume.Name); err != nil {
		return f, err
	}
	if volume.clones() {
		source := volume.Spec.Source.PVC
		if f.source, err = c.claim(source.Namespace, source.Name); err != nil {
			return f, err
		}
		if f.users, err = c.users(source); err != nil {
			return f, err
		}
	}
	f.populator = volume.clones()
	if flow := f.faults[faults.Population]; flow != "" {
		f.populator = flow == "populator"
	}
	if f.claim != nil {
		f.populator = f.claim.Spec.DataSourceRef != nil
		f.waits = c.waits(volume, f.claim)
	}
	return f, nil
}

func (c *Controller) faults(volume *DataVolume) faults.Faults {
	namespace, err := c.namespaces.Get(volume.Namespace)
	if err != nil {
		return faults.Of(nil, volume.Annotations)
	}
	return faults.Of(namespace.Annotations, volume.Annotations)
}

// claim returns nil when there is none.
func (c *Controller) claim(namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	claim, err := c.claims.PersistentVolumeClaims(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return claim, err
}

// users are pods that may write to the source. One that ended does not.
func (c *Controller) users(source *PVCSource) ([]string, error) {
	pods, err := c.pods.Pods(source.Namespace).List(labels.Everything())
	if err != nil {
		return nil, err
	}
	var users []string
	for _, pod := range pods {
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		for _, v := range pod.Spec.Volumes {
			if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == source.Name {
				users = append(users, pod.Namespace+"/"+pod.Name)
			}
		}
	}
	return users, nil
}

func (c *Controller) waits(volume *DataVolume, claim *corev1.PersistentVolumeClaim) bool {
	if claim.Status.Phase == corev1.ClaimBound || claim.Annotations[volumes.AnnotationSelected] != "" {
		return false
	}
	class := c.class(claim)
	return class != nil && volume.Annotations[annotationImmediate] == "" &&
		class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

func (c *Controller) class(claim *corev1.PersistentVolumeClaim) *storagev1.StorageClass {
	if claim.Spec.StorageClassName == nil {
		return nil
	}
	class, err := c.classes.Get(*claim.Spec.StorageClassName)
	if err != nil {
		return nil
	}
	return class
}
