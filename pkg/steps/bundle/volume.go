package bundle

import (
	"context"
	"encoding/json"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/step"
)

// Run is what matters of a PipelineRun: whether it still lives.
type Run struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Status   struct {
		CompletionTime *metav1.Time `json:"completionTime"`
	} `json:"status"`
}

// Volumes are the golden volumes of a namespace, their boot keys, and the runs
// that lock them.
type Volumes struct {
	// Claims are the volumes themselves.
	Claims *kube.Objects[corev1.PersistentVolumeClaim]
	// Keys are the boot key Secrets.
	Keys *kube.Objects[corev1.Secret]

	runs      *kube.Objects[Run]
	namespace string
}

// NewVolumes returns clients for a namespace.
func NewVolumes(config *rest.Config, namespace string) (*Volumes, error) {
	v := &Volumes{namespace: namespace}
	var err error
	core := corev1.SchemeGroupVersion
	if v.Claims, err = kube.NewObjects[corev1.PersistentVolumeClaim](config, core.WithResource("persistentvolumeclaims"), namespace); err != nil {
		return nil, err
	}
	if v.Keys, err = kube.NewObjects[corev1.Secret](config, core.WithResource("secrets"), namespace); err != nil {
		return nil, err
	}
	v.runs, err = kube.NewObjects[Run](config, schema.GroupVersionResource{Group: "tekton.dev", Version: "v1", Resource: "pipelineruns"}, namespace)
	return v, err
}

// Find reads a golden volume; nil if there is none. One that bears the name
// but not the label is not touched.
func (v *Volumes) Find(ctx context.Context, name string) (*corev1.PersistentVolumeClaim, error) {
	claim, err := v.Claims.Get(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, Classify("read golden volume", err)
	case claim.Labels[guestcluster.BundleLabel] != name:
		return nil, step.UserError("PersistentVolumeClaim %s/%s is not a golden volume: it lacks label %s=%s; delete it, or label it if it is of no other use",
			v.namespace, name, guestcluster.BundleLabel, name)
	}
	return claim, nil
}

// Sealed says whether a volume is complete and must not be written again.
func Sealed(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Annotations[guestcluster.BundleSHA256Annotation] != ""
}

// Unlocked says which other run that still lives has locked a volume, if one has.
func (v *Volumes) Unlocked(ctx context.Context, claim *corev1.PersistentVolumeClaim, runUID string) error {
	holder, name := claim.Annotations[guestcluster.PrepareRunAnnotation], claim.Annotations[guestcluster.PrepareRunNameAnnotation]
	if holder == "" || holder == runUID || Sealed(claim) {
		return nil
	}
	if name == "" {
		return step.UserError("golden volume %s/%s is locked by the run with UID %s, which has no name: delete the volume to prepare it anew", v.namespace, claim.Name, holder)
	}
	run, err := v.runs.Get(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return Classify("read PipelineRun "+name, err)
	case string(run.Metadata.UID) != holder || run.Status.CompletionTime != nil:
		return nil
	}
	return step.InfraError("golden volume %s/%s is being written by PipelineRun %s: wait until that has ended, or cancel it", v.namespace, claim.Name, name)
}

// Mine reads the volume that a run works on and checks that it still is the
// same one, and locked by that run unless it is sealed.
func (v *Volumes) Mine(ctx context.Context, name, uid, runUID string) (*corev1.PersistentVolumeClaim, error) {
	claim, err := v.Find(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case claim == nil || string(claim.UID) != uid:
		return nil, step.InfraError("golden volume %s/%s with UID %s is gone: start the run again", v.namespace, name, uid)
	case !Sealed(claim) && claim.Annotations[guestcluster.PrepareRunAnnotation] != runUID:
		return nil, step.InfraError("golden volume %s/%s was taken over by the run with UID %s", v.namespace, name, claim.Annotations[guestcluster.PrepareRunAnnotation])
	}
	return claim, nil
}

// Patch is a merge patch for an object that must still be the one that was
// read: metadata and, if not nil, data.
func Patch(seen, metadata metav1.ObjectMeta, data map[string][]byte) ([]byte, error) {
	meta := map[string]any{"uid": seen.UID, "resourceVersion": seen.ResourceVersion}
	if metadata.Annotations != nil {
		meta["annotations"] = metadata.Annotations
	}
	if metadata.Labels != nil {
		meta["labels"] = metadata.Labels
	}
	if metadata.OwnerReferences != nil {
		meta["ownerReferences"] = metadata.OwnerReferences
	}
	patch := map[string]any{"metadata": meta}
	if data != nil {
		patch["data"] = data
	}
	raw, err := json.Marshal(patch)
	if err != nil {
		return nil, step.InfraError("encode patch: %w", err)
	}
	return raw, nil
}

// Classify makes errors final that trying again cannot mend.
func Classify(doing string, err error) error {
	return kube.Classify(doing, err, "ServiceAccount default of namespace "+guestcluster.BundleNamespace+" needs Role prepare-bundle, which is installed with Guestcluster")
}

// Annotations returns what seals a volume, or says of a boot key whose it is.
func Annotations(sum string, info *Info) map[string]string {
	return map[string]string{
		guestcluster.BundleSHA256Annotation: sum,
		guestcluster.OCPVersionAnnotation:   info.OCPVersion,
		guestcluster.BuildTimeAnnotation:    info.BuildTime,
	}
}

// Seal are the annotations of a boot key that its volume gets too.
func Seal(key *corev1.Secret) map[string]string {
	seal := maps.Clone(key.Annotations)
	maps.DeleteFunc(seal, func(name, _ string) bool {
		return name != guestcluster.BundleSHA256Annotation && name != guestcluster.OCPVersionAnnotation && name != guestcluster.BuildTimeAnnotation
	})
	return seal
}
