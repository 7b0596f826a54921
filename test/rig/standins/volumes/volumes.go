package volumes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"

	"opdev.io/guestcluster/test/rig/standins/loop"
)

const (
	provisionerName = "rig.guestcluster.opdev.io/local"
	annotationBy    = "pv.kubernetes.io/provisioned-by"

	// AnnotationSelected names the node that a consumer of a claim runs on.
	AnnotationSelected = "volume.kubernetes.io/selected-node"
)

// Provisioner makes a directory and a local PersistentVolume for each claim of
// its storage classes. Local volumes, unlike hostPath, honour fsGroup.
type Provisioner struct {
	Changes *loop.Changes
	place   Place
	client  kubernetes.Interface
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	classes storagelisters.StorageClassLister
}

// Place is where volumes are.
type Place struct {
	// Dir is the folder of the volumes' directories.
	Dir string
	// Node is the node that has the folder.
	Node string
}

// New returns a provisioner that watches claims, volumes and classes.
func New(place Place, client kubernetes.Interface, typed informers.SharedInformerFactory) *Provisioner {
	p := &Provisioner{
		Changes: loop.NewChanges(), place: place, client: client,
		claims:  typed.Core().V1().PersistentVolumeClaims().Lister(),
		volumes: typed.Core().V1().PersistentVolumes().Lister(),
		classes: typed.Storage().V1().StorageClasses().Lister(),
	}
	_, _ = typed.Core().V1().PersistentVolumeClaims().Informer().AddEventHandler(p.Changes)
	_, _ = typed.Core().V1().PersistentVolumes().Informer().AddEventHandler(p.Changes)
	_, _ = typed.Storage().V1().StorageClasses().Informer().AddEventHandler(p.Changes)
	return p
}

// Reconcile makes what claims want and removes what nobody claims.
func (p *Provisioner) Reconcile(ctx context.Context) error {
	claims, err := p.claims.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list claims: %w", err)
	}
	var failures []error
	for _, claim := range claims {
		if class := p.class(claim); class != nil && wanted(claim, class) {
			failures = append(failures, p.provision(ctx, claim, class))
		}
	}
	volumes, err := p.volumes.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list volumes: %w", err)
	}
	for _, volume := range volumes {
		if released(volume) {
			failures = append(failures, p.remove(ctx, volume))
		}
	}
	return errors.Join(failures...)
}

func (p *Provisioner) class(claim *corev1.PersistentVolumeClaim) *storagev1.StorageClass {
	if claim.Spec.StorageClassName == nil {
		return nil
	}
	class, err := p.classes.Get(*claim.Spec.StorageClassName)
	if err != nil || class.Provisioner != provisionerName {
		return nil
	}
	return class
}

// wanted waits for a consumer when the class says so: the scheduler then notes
// the chosen node on the claim.
func wanted(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) bool {
	if claim.Status.Phase != corev1.ClaimPending || claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil {
		return false
	}
	// A populator brings the volume of such a claim.
	if claim.Spec.DataSourceRef != nil {
		return false
	}
	immediate := class.VolumeBindingMode == nil || *class.VolumeBindingMode == storagev1.VolumeBindingImmediate
	return immediate || claim.Annotations[AnnotationSelected] != ""
}

func released(volume *corev1.PersistentVolume) bool {
	return volume.Annotations[annotationBy] == provisionerName &&
		volume.Status.Phase == corev1.VolumeReleased &&
		volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}

func (p *Provisioner) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) error {
	volume := p.place.Volume(claim, class)
	// The mode lets any user write, as a fresh network volume with fsGroup would.
	err := errors.Join(os.MkdirAll(volume.Spec.Local.Path, 0o777), os.Chmod(volume.Spec.Local.Path, 0o777))
	if err != nil {
		return fmt.Errorf("make the directory of claim %s: %w", claim.Name, err)
	}
	_, err = p.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the volume of claim %s: %w", claim.Name, err)
	}
	return nil
}

func (p *Provisioner) remove(ctx context.Context, volume *corev1.PersistentVolume) error {
	if err := os.RemoveAll(p.place.Path(volume.Name)); err != nil {
		return fmt.Errorf("empty volume %s: %w", volume.Name, err)
	}
	err := p.client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, metav1.DeleteOptions{})
	if err != nil {
		return loop.Gone(fmt.Errorf("delete volume %s: %w", volume.Name, err))
	}
	return nil
}

// Path is the directory of a name.
func (p Place) Path(name string) string { return filepath.Join(p.Dir, name) }

// Volume is the PersistentVolume for a claim; its directory has its name.
func (p Place) Volume(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) *corev1.PersistentVolume {
	name := "pvc-" + string(claim.UID)
	reclaim := corev1.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		reclaim = *class.ReclaimPolicy
	}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{annotationBy: provisionerName}},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   claim.Spec.AccessModes,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			StorageClassName:              class.Name,
			PersistentVolumeReclaimPolicy: reclaim,
			VolumeMode:                    claim.Spec.VolumeMode,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: p.Path(name)}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{p.Node},
				}},
			}}}},
		},
	}
}
