package objects

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Read fills a struct from an object.
func Read[T any](object runtime.Object) (*T, error) {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("read an object: unexpected %T", object)
	}
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into); err != nil {
		return nil, fmt.Errorf("read %s %s/%s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
	}
	return into, nil
}

// WithStatus returns a copy with another status, or nil when nothing changes.
func WithStatus(object runtime.Object, status any) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return nil, fmt.Errorf("print a status: %w", err)
	}
	old := object.(*unstructured.Unstructured)
	current, _, _ := unstructured.NestedMap(old.Object, "status")
	if equality.Semantic.DeepEqual(current, fields) {
		return nil, nil
	}
	changed := old.DeepCopy()
	changed.Object["status"] = fields
	return changed, nil
}

// Condition is one that both CDI and KubeVirt know.
type Condition struct {
	Type    string                 `json:"type"`
	Status  metav1.ConditionStatus `json:"status"`
	Reason  string                 `json:"reason,omitempty"`
	Message string                 `json:"message,omitempty"`
	// LastTransitionTime is a pointer: an empty time prints as null.
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
}

// Find returns the condition of a type, or nil.
func Find(conditions []Condition, kind string) *Condition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}

// Is tells whether a condition has a status.
func Is(conditions []Condition, kind string, status metav1.ConditionStatus) bool {
	found := Find(conditions, kind)
	return found != nil && found.Status == status
}

// Set puts a condition; its time stays while the status does.
func Set(conditions []Condition, c Condition, now metav1.Time) []Condition {
	c.LastTransitionTime = &now
	if found := Find(conditions, c.Type); found != nil {
		if found.Status == c.Status && found.LastTransitionTime != nil {
			c.LastTransitionTime = found.LastTransitionTime
		}
		*found = c
		return conditions
	}
	return append(conditions, c)
}

// Remove drops the condition of a type.
func Remove(conditions []Condition, kind string) []Condition {
	var kept []Condition
	for _, c := range conditions {
		if c.Type != kind {
			kept = append(kept, c)
		}
	}
	return kept
}
