package instance

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// trim keeps of a watched object what is read or compared: machines are large.
func trim(obj any) (any, error) {
	full, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	kept := &unstructured.Unstructured{Object: map[string]any{}}
	for _, path := range [][]string{
		{"apiVersion"}, {"kind"},
		{"metadata", "name"}, {"metadata", "namespace"}, {"metadata", "uid"}, {"metadata", "resourceVersion"},
		{"metadata", "labels"}, {"metadata", "ownerReferences"}, {"metadata", "deletionTimestamp"},
		{"spec", "runStrategy"}, {"spec", "running"},
		{"spec", "host"}, {"spec", "to"}, {"spec", "port"}, {"spec", "tls", "termination"},
		{"status", "phase"},
	} {
		if value, found, err := unstructured.NestedFieldNoCopy(full.Object, path...); found && err == nil {
			_ = unstructured.SetNestedField(kept.Object, value, path...)
		}
	}
	return kept, nil
}

// differs says whether two trimmed objects differ in more than their resourceVersion.
func differs(before, after any) bool {
	was, ok := before.(*unstructured.Unstructured)
	is, same := after.(*unstructured.Unstructured)
	if !ok || !same {
		return true
	}
	was, is = was.DeepCopy(), is.DeepCopy()
	was.SetResourceVersion("")
	is.SetResourceVersion("")
	return !equality.Semantic.DeepEqual(was.Object, is.Object)
}
