package plan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// Progress says what the oldest instance that is still being made does or waits
// for; empty when none is. Whoever waits for the pool waits for that.
func Progress(instances []*v1alpha1.ClusterInstance) string {
	var oldest *v1alpha1.ClusterInstance
	for _, i := range instances {
		if i.DeletionTimestamp != nil || i.IsFailed() || i.Status.ReadyTime != nil {
			continue
		}
		if oldest == nil || i.CreationTimestamp.Before(&oldest.CreationTimestamp) {
			oldest = i
		}
	}
	if oldest == nil {
		return ""
	}
	c := meta.FindStatusCondition(oldest.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil {
		return fmt.Sprintf("instance %s was just made", oldest.Name)
	}
	return fmt.Sprintf("instance %s: %s: %s", oldest.Name, c.Reason, c.Message)
}
