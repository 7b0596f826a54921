package cdi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/test/rig/standins/faults"
	"opdev.io/guestcluster/test/rig/standins/loop"
	"opdev.io/guestcluster/test/rig/standins/objects"
	"opdev.io/guestcluster/test/rig/standins/volumes"
)

// primePrefix begins the directory of a volume that has no claim yet; the rest
// is the UID of its DataVolume.
const primePrefix = "prime-"

// prepare writes once what CDI notes on a DataVolume before it acts.
func (c *Controller) prepare(ctx context.Context, object runtime.Object, f facts) (bool, error) {
	if f.volume.Annotations[annotationPopulator] != "" {
		return false, nil
	}
	changed := object.(*unstructured.Unstructured).DeepCopy()
	annotations := changed.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotationPopulator] = fmt.Sprint(f.populator)
	if f.volume.clones() {
		annotations[annotationCloneType] = "copy"
	}
	changed.SetAnnotations(annotations)
	if f.volume.clonesAcrossNamespaces() {
		changed.SetFinalizers(append(changed.GetFinalizers(), finalizer))
	}
	_, err := c.dynamic.Resource(Resource).Namespace(f.volume.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
	return true, loop.Outdated(err)
}

// release lets a deleted DataVolume go; its claim goes by the owner reference.
func (c *Controller) release(ctx context.Context, volume *DataVolume) error {
	if !slices.Contains(volume.Finalizers, finalizer) {
		return nil
	}
	kept := slices.DeleteFunc(slices.Clone(volume.Finalizers), func(name string) bool { return name == finalizer })
	object, err := c.dynamic.Resource(Resource).Namespace(volume.Namespace).Get(ctx, volume.Name, metav1.GetOptions{})
	if err != nil || object.GetUID() != volume.UID {
		return loop.Gone(err)
	}
	object.SetFinalizers(kept)
	_, err = c.dynamic.Resource(Resource).Namespace(volume.Namespace).Update(ctx, object, metav1.UpdateOptions{})
	return loop.Outdated(err)
}

func (c *Controller) act(ctx context.Context, f facts, d decision) error {
	if d.event != nil {
		c.tell(f, *d.event, d.do == lookAgain)
	}
	switch d.do {
	case createClaim:
		_, err := c.client.CoreV1().PersistentVolumeClaims(f.volume.Namespace).
			Create(ctx, buildClaim(f.volume, f.source, f.populator), metav1.CreateOptions{})
		return loop.Outdated(err)
	case startTransfer:
		return c.start(ctx, f)
	case finish:
		return c.finish(ctx, f)
	case lookAgain:
		c.Changes.NotifyAfter(pollInterval)
	}
	return c.bindImmediately(ctx, f)
}

type telling struct {
	event event
	at    time.Time
}

func (c *Controller) tell(f facts, e event, again bool) {
	if last := c.told[f.volume.UID]; last.event == e && (!again || time.Since(last.at) < pollInterval) {
		return
	}
	c.told[f.volume.UID] = telling{e, time.Now()}
	var about runtime.Object = &metav1.PartialObjectMetadata{TypeMeta: f.volume.TypeMeta, ObjectMeta: f.volume.ObjectMeta}
	if e.onClaim {
		about = f.claim
	}
	c.recorder.Event(about, e.kind, e.reason, e.message)
}

// bindImmediately stands for the importer pod, which is a consumer itself.
func (c *Controller) bindImmediately(ctx context.Context, f facts) error {
	if f.claim == nil || f.populator || f.waits || f.claim.Status.Phase != corev1.ClaimPending ||
		f.volume.Annotations[annotationImmediate] == "" || f.claim.Annotations[volumes.AnnotationSelected] != "" {
		return nil
	}
	return c.annotate(ctx, f.claim, volumes.AnnotationSelected, c.place.Node)
}

func (c *Controller) annotate(ctx context.Context, claim *corev1.PersistentVolumeClaim, name, value string) error {
	changed := claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, name, value)
	_, err := c.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
	return loop.Outdated(err)
}

func (c *Controller) start(ctx context.Context, f facts) error {
	dir := c.place.Path(primePrefix + string(f.volume.UID))
	if !f.populator {
		bound, err := c.directory(f.claim)
		if err != nil {
			return err
		}
		dir = bound
	}
	work, err := c.work(ctx, f, dir)
	if err != nil {
		return err
	}
	size := usable(requested(&f.claim.Spec))
	c.transfers.start(ctx, f.volume.UID, f.volume.Status.RestartCount, func(ctx context.Context, report func(done, total int64)) error {
		if err := c.fault(f.volume); err != nil {
			return err
		}
		if err := errors.Join(os.MkdirAll(dir, 0o777), os.Chmod(dir, 0o777)); err != nil {
			return fmt.Errorf("make the volume's directory: %w", err)
		}
		if err := work(ctx, report); err != nil {
			return err
		}
		return settleImage(dir, size)
	})
	return nil
}

// fault is asked before each attempt, so that lifting a fault heals.
func (c *Controller) fault(volume *DataVolume) error {
	current := c.faults(volume)
	if object, err := c.dataVolumes.ByNamespace(volume.Namespace).Get(volume.Name); err == nil {
		if newer, err := objects.Read[DataVolume](object); err == nil {
			current = c.faults(newer)
		}
	}
	switch {
	case current.Has(faults.Fail):
		return importError(current[faults.Fail])
	case current.Has(faults.NoSpace):
		return importError(noSpace)
	}
	return nil
}

func (c *Controller) work(ctx context.Context, f facts, dir string) (attempt, error) {
	source := f.volume.Spec.Source
	switch {
	case source.PVC != nil:
		from, err := c.directory(f.source)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, report func(done, total int64)) error { return clone(ctx, from, dir, report) }, nil
	case source.HTTP != nil:
		d := download{source: *source.HTTP, roots: [][]byte{c.authority}, limit: usable(requested(&f.claim.Spec))}
		if err := c.equip(ctx, f.volume.Namespace, &d); err != nil {
			return nil, err
		}
		return func(ctx context.Context, report func(done, total int64)) error { return d.run(ctx, dir, report) }, nil
	}
	return func(context.Context, func(done, total int64)) error {
		return os.WriteFile(filepath.Join(dir, diskName), nil, 0o660)
	}, nil
}

// equip adds the certificates and the login that a source names.
func (c *Controller) equip(ctx context.Context, namespace string, d *download) error {
	if name := d.source.CertConfigMap; name != "" {
		found, err := c.client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read the certificates: %w", err)
		}
		for _, pem := range found.Data {
			d.roots = append(d.roots, []byte(pem))
		}
	}
	if name := d.source.SecretRef; name != "" {
		found, err := c.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read the login: %w", err)
		}
		d.user, d.password = string(found.Data["accessKeyId"]), string(found.Data["secretKey"])
	}
	return nil
}

func (c *Controller) directory(claim *corev1.PersistentVolumeClaim) (string, error) {
	volume, err := c.volumes.Get(claim.Spec.VolumeName)
	if err != nil {
		return "", fmt.Errorf("find the volume of claim %s: %w", claim.Name, err)
	}
	if volume.Spec.Local == nil {
		return "", fmt.Errorf("volume %s is not of the rig", volume.Name)
	}
	return volume.Spec.Local.Path, nil
}

// finish notes a filled claim; a populator's gets its volume only now.
func (c *Controller) finish(ctx context.Context, f facts) error {
	if f.populator {
		if err := c.rebind(ctx, f); err != nil {
			return err
		}
	}
	return c.annotate(ctx, f.claim, annotationPodPhase, string(corev1.PodSucceeded))
}

func (c *Controller) rebind(ctx context.Context, f facts) error {
	class := c.class(f.claim)
	if class == nil {
		return fmt.Errorf("find the storage class of claim %s", f.claim.Name)
	}
	volume := c.place.Volume(f.claim, class)
	prime := c.place.Path(primePrefix + string(f.volume.UID))
	// Without the directory this was done before.
	if _, err := os.Stat(prime); err == nil {
		if err := errors.Join(os.RemoveAll(volume.Spec.Local.Path), os.Rename(prime, volume.Spec.Local.Path)); err != nil {
			return fmt.Errorf("hand over the volume: %w", err)
		}
	}
	_, err := c.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	return loop.Outdated(err)
}

func (c *Controller) writeStatus(ctx context.Context, object runtime.Object, d decision) error {
	changed, err := objects.WithStatus(object, &d.status)
	if err != nil || changed == nil {
		return err
	}
	_, err = c.dynamic.Resource(Resource).Namespace(changed.GetNamespace()).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	return loop.Outdated(err)
}

// sweep removes what deleted DataVolumes left half filled.
func (c *Controller) sweep(alive map[types.UID]bool) error {
	entries, err := filepath.Glob(c.place.Path(primePrefix + "*"))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if uid := strings.TrimPrefix(filepath.Base(entry), primePrefix); !alive[types.UID(uid)] {
			err = errors.Join(err, os.RemoveAll(entry))
		}
	}
	return err
}

// importError is a message in CDI's own words.
type importError string

func (e importError) Error() string { return string(e) }
