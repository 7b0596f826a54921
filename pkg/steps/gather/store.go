package gather

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/step"
	"opdev.io/guestcluster/pkg/steps/virt"
)

// store writes the instance's ConfigMap.
type store struct {
	owner kube.Owner
	name  string
	maps  *kube.Objects[corev1.ConfigMap]
}

func newStore(config *rest.Config, o *Options) (*store, error) {
	maps, err := kube.NewObjects[corev1.ConfigMap](config, corev1.SchemeGroupVersion.WithResource("configmaps"), o.Namespace)
	return &store{kube.Owner{Name: o.Instance, Namespace: o.Namespace, UID: types.UID(o.InstanceUID)}, o.ConfigMap, maps}, err
}

// save fills what the controller made, or replaces what an earlier attempt
// gathered. Only who runs the step by hand may have the right to make it.
func (s *store) save(ctx context.Context, data map[string]string) error {
	seen, err := s.maps.Get(ctx, s.name)
	if apierrors.IsNotFound(err) {
		_, err = s.maps.Create(ctx, &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: s.owner.Meta(s.name), Data: data,
		})
		return kube.Classify("make ConfigMap "+s.name, err, virt.Hint)
	}
	if err != nil {
		return kube.Classify("read ConfigMap "+s.name, err, virt.Hint)
	}
	if !s.owner.Owns(seen) {
		return step.UserError("ConfigMap %s does not belong to ClusterInstance %s: not written", s.name, s.owner.Name)
	}
	patch, err := kube.Guarded(seen.UID, seen.ResourceVersion, map[string]any{"data": data})
	if err != nil {
		return err
	}
	_, err = s.maps.Patch(ctx, s.name, patch)
	return kube.Classify("write ConfigMap "+s.name, err, virt.Hint)
}
