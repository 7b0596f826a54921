package objects

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestSetKeepsTheTimeWhileTheStatusStays(t *testing.T) {
	early, late := metav1.NewTime(time.Unix(1, 0)), metav1.NewTime(time.Unix(2, 0))
	all := Set(nil, Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "A"}, early)
	all = Set(all, Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "B"}, late)
	if len(all) != 1 || all[0].Reason != "B" || !all[0].LastTransitionTime.Equal(&early) {
		t.Errorf("got %+v", all)
	}
	all = Set(all, Condition{Type: "Ready", Status: metav1.ConditionTrue}, late)
	if !all[0].LastTransitionTime.Equal(&late) {
		t.Errorf("got %+v", all)
	}
}

func TestWithStatusWritesChangesOnly(t *testing.T) {
	type status struct {
		Phase string `json:"phase,omitempty"`
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"kept": "yes"}}}
	changed, err := WithStatus(object, &status{Phase: "Pending"})
	if err != nil || changed == nil || changed.Object["spec"] == nil {
		t.Fatalf("got %v, %v", changed, err)
	}
	if again, err := WithStatus(changed, &status{Phase: "Pending"}); err != nil || again != nil {
		t.Errorf("got %v, %v for the same status", again, err)
	}
}
