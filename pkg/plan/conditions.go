package plan

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

func conditionFalse(pool *v1alpha1.ClusterPool, kind string) bool {
	return meta.IsStatusConditionFalse(pool.Status.Conditions, kind)
}

func conditionReason(pool *v1alpha1.ClusterPool, kind string) v1alpha1.Reason {
	if c := meta.FindStatusCondition(pool.Status.Conditions, kind); c != nil {
		return v1alpha1.Reason(c.Reason)
	}
	return ""
}

func conditionMessage(pool *v1alpha1.ClusterPool, kind string) string {
	if c := meta.FindStatusCondition(pool.Status.Conditions, kind); c != nil {
		return c.Message
	}
	return ""
}
