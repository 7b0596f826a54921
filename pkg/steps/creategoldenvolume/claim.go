package creategoldenvolume

import (
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/steps/bundle"
	"opdev.io/guestcluster/pkg/steps/step"
)

// peek reads the head of the bundle and returns the size of its disk.
func (c *Creator) peek(ctx context.Context) (int64, error) {
	mirror, err := bundle.NewMirror(c.Source, c.Progress, c.Pause, c.Now, c.Dial)
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(c.Progress, "looking at %s\n", c.URL())
	download := mirror.Open(ctx)
	defer download.Close()
	members, err := look(&head{download}, &c.Source)
	if failed := download.Err(); failed != nil {
		return 0, failed
	}
	if bundle.IsDamaged(err) {
		return 0, step.UserError("%s is no bundle: %w", c.URL(), err)
	}
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(c.Progress, "bundle of OpenShift %s, built %s, with a disk of %d bytes\n", members.Info.OCPVersion, members.Info.BuildTime, members.Header.VirtualSize)
	return members.Header.VirtualSize, nil
}

func look(source io.Reader, wanted *bundle.Source) (*bundle.Members, error) {
	archive, err := bundle.OpenArchive(source)
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	return bundle.Peek(archive, wanted)
}

// head is the part of a download that is looked at.
type head struct{ *bundle.Download }

func (h *head) Read(p []byte) (int, error) {
	if h.Offset() > maxPeek {
		return 0, step.UserError("%s: %s and a disk are not at the start of the bundle: it is none that Red Hat made", h.URL(), bundle.InfoName)
	}
	return h.Download.Read(p)
}

// claim is the golden volume as it is made.
func (c *Creator) claim(virtual int64) (*corev1.PersistentVolumeClaim, error) {
	size, err := c.request(virtual)
	if err != nil {
		return nil, err
	}
	claim := &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: bundle.Meta(c.Name(), c.BundleUID, c.Name(), c.Namespace),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
		},
	}
	claim.Annotations = map[string]string{
		contentTypeAnnotation:                 contentType,
		guestcluster.PrepareRunAnnotation:     c.RunUID,
		guestcluster.PrepareRunNameAnnotation: c.RunName,
	}
	if c.StorageClass != "" {
		claim.Spec.StorageClassName = &c.StorageClass
	}
	return claim, nil
}

// adopt locks a volume that an earlier run left unfinished. Its storage class
// stays: a volume is not moved.
func (c *Creator) adopt(ctx context.Context, claim, wanted *corev1.PersistentVolumeClaim, virtual int64) (*corev1.PersistentVolumeClaim, error) {
	if bundle.Sealed(claim) {
		return claim, nil
	}
	if err := c.fits(claim, virtual); err != nil {
		return nil, err
	}
	if mode := claim.Spec.VolumeMode; mode != nil && *mode != corev1.PersistentVolumeFilesystem {
		return nil, step.UserError("golden volume %s/%s has no file system but volumeMode %s: delete it and start again", c.Namespace, claim.Name, *mode)
	}
	if class := claim.Spec.StorageClassName; c.StorageClass != "" && class != nil && *class != c.StorageClass {
		fmt.Fprintf(c.Progress, "golden volume %s/%s stays in storage class %s\n", c.Namespace, claim.Name, *class)
	}
	change := wanted.ObjectMeta
	if claim.OwnerReferences != nil {
		change.OwnerReferences = nil
	}
	patch, err := bundle.Patch(claim.ObjectMeta, change, nil)
	if err != nil {
		return nil, err
	}
	return c.Volumes.Claims.Patch(ctx, claim.Name, patch)
}
