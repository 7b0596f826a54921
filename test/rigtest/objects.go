package rigtest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// OwnedBy lists kind/name of every object of a namespace that an owner
// reference or the instance-uid label ties to the UID.
func (r *Rig) OwnedBy(ctx context.Context, namespace string, uid types.UID) ([]string, error) {
	var found []string
	err := r.each(ctx, namespace, func(resource schema.GroupVersionResource, o unstructured.Unstructured) {
		owned := slices.ContainsFunc(o.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == uid })
		if owned || o.GetLabels()["guestcluster.opdev.io/instance-uid"] == string(uid) {
			found = append(found, resource.Resource+"/"+o.GetName())
		}
	})
	return found, err
}

// EverythingButSecrets is the JSON of every object, by resource and name.
func (r *Rig) EverythingButSecrets(ctx context.Context) (map[string]string, error) {
	found := map[string]string{}
	err := r.each(ctx, metav1.NamespaceAll, func(resource schema.GroupVersionResource, o unstructured.Unstructured) {
		if resource.Group == "" && resource.Resource == "secrets" {
			return
		}
		text, err := json.Marshal(o.Object)
		if err == nil {
			found[fmt.Sprintf("%s %s/%s", resource.Resource, o.GetNamespace(), o.GetName())] = string(text)
		}
	})
	return found, err
}

func (r *Rig) each(ctx context.Context, namespace string, visit func(schema.GroupVersionResource, unstructured.Unstructured)) error {
	lists, err := r.Kube.Discovery().ServerPreferredResources()
	if err != nil {
		return fmt.Errorf("discover kinds: %w", err)
	}
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return err
		}
		for _, kind := range list.APIResources {
			if !slices.Contains(kind.Verbs, "list") || (namespace != "" && !kind.Namespaced) {
				continue
			}
			resource := group.WithResource(kind.Name)
			objects, err := r.Dynamic.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue
			}
			if err != nil {
				return fmt.Errorf("list %s: %w", kind.Name, err)
			}
			for _, o := range objects.Items {
				visit(resource, o)
			}
		}
	}
	return nil
}
