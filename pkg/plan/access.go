package plan

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// NamespaceAllowed says whether leases of a namespace may use the pool: its own
// always, others when allowedNamespaces selects their labels.
func NamespaceAllowed(pool *v1alpha1.ClusterPool, namespace string, namespaceLabels map[string]string) v1alpha1.Verdict {
	if namespace == pool.Namespace {
		return v1alpha1.Verdict{OK: true}
	}
	denied := v1alpha1.Verdict{Reason: v1alpha1.ReasonNamespaceNotAllowed, Message: fmt.Sprintf(
		"pool %s/%s does not allow leases from namespace %s: its owner must select the namespace's labels in spec.allowedNamespaces",
		pool.Namespace, pool.Name, namespace)}
	if pool.Spec.AllowedNamespaces == nil {
		return denied
	}
	selector, err := namespaceSelector(pool.Spec.AllowedNamespaces)
	if err != nil {
		denied.Message += "; the selector there is invalid: " + err.Error()
		return denied
	}
	if !selector.Matches(labels.Set(namespaceLabels)) {
		return denied
	}
	return v1alpha1.Verdict{OK: true}
}

func namespaceSelector(s *v1alpha1.NamespaceSelector) (labels.Selector, error) {
	standard := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for k, v := range s.MatchLabels {
		standard.MatchLabels[k] = string(v)
	}
	for _, e := range s.MatchExpressions {
		values := make([]string, 0, len(e.Values))
		for _, v := range e.Values {
			values = append(values, string(v))
		}
		standard.MatchExpressions = append(standard.MatchExpressions, metav1.LabelSelectorRequirement{Key: e.Key, Operator: e.Operator, Values: values})
	}
	return metav1.LabelSelectorAsSelector(standard)
}

// Available says whether an instance of the pool can be handed out, as far as
// the instance itself tells; a lease that names it must be ruled out too.
func Available(pool *v1alpha1.ClusterPool, i *v1alpha1.ClusterInstance, currentHash string) bool {
	if i.Spec.PoolRef == nil || i.Spec.PoolRef.UID != pool.UID || !hasSlot(pool, i) {
		return false
	}
	if i.Spec.ClaimRef != nil || !i.IsReady() || i.IsFailed() {
		return false
	}
	return pool.Spec.UpdateStrategy != v1alpha1.UpdateRecreate || !IsStale(i, currentHash)
}

// hasSlot rules out instances that somebody slipped in beside the pool's slots:
// the pool would neither count nor delete them.
func hasSlot(pool *v1alpha1.ClusterPool, i *v1alpha1.ClusterInstance) bool {
	return i.Spec.Slot != nil && i.Name == v1alpha1.InstanceName(pool.Name, *i.Spec.Slot)
}

// AccessMissing says what an admin must do before the controller can work in a namespace.
func AccessMissing(namespace, command string) string {
	return fmt.Sprintf("the controller has no rights in namespace %s; an admin must run: %s", namespace, command)
}
