package plan

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

func TestNamespaceAllowed(t *testing.T) {
	team := &v1alpha1.NamespaceSelector{MatchLabels: map[string]v1alpha1.LabelValue{"team": "ci"}}
	tier := func(op metav1.LabelSelectorOperator, values ...v1alpha1.LabelValue) *v1alpha1.NamespaceSelector {
		return &v1alpha1.NamespaceSelector{MatchExpressions: []v1alpha1.NamespaceRequirement{{Key: "tier", Operator: op, Values: values}}}
	}
	tests := map[string]struct {
		selector  *v1alpha1.NamespaceSelector
		namespace string
		labels    map[string]string
		want      bool
		says      string
	}{
		"the pool's own namespace needs no selector":      {namespace: "clusters", want: true},
		"the pool's own namespace is allowed in any case": {namespace: "clusters", selector: team, want: true},
		"another namespace needs a selector":              {namespace: "ci", says: "spec.allowedNamespaces"},
		"labels match":                                    {namespace: "ci", selector: team, labels: map[string]string{"team": "ci", "x": "y"}, want: true},
		"labels differ":                                   {namespace: "ci", selector: team, labels: map[string]string{"team": "qe"}, says: "namespace ci"},
		"an unlabelled namespace":                         {namespace: "ci", selector: team},
		"an empty selector allows every namespace":        {namespace: "ci", selector: &v1alpha1.NamespaceSelector{}, want: true},
		"a value is in the list":                          {namespace: "ci", selector: tier(metav1.LabelSelectorOpIn, "a", "b"), labels: map[string]string{"tier": "b"}, want: true},
		"a value is not in the list":                      {namespace: "ci", selector: tier(metav1.LabelSelectorOpNotIn, "a"), labels: map[string]string{"tier": "a"}},
		"a key exists":                                    {namespace: "ci", selector: tier(metav1.LabelSelectorOpExists), labels: map[string]string{"tier": ""}, want: true},
		"a key must not exist":                            {namespace: "ci", selector: tier(metav1.LabelSelectorOpDoesNotExist), labels: map[string]string{"tier": ""}},
		"an invalid selector allows nothing and says so":  {namespace: "ci", selector: tier(metav1.LabelSelectorOpIn), says: "the selector there is invalid"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pool := &v1alpha1.ClusterPool{ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: "crc"}}
			pool.Spec.AllowedNamespaces = tt.selector
			got := NamespaceAllowed(pool, tt.namespace, tt.labels)
			if got.OK != tt.want || !strings.Contains(got.Message, tt.says) {
				t.Errorf("got %+v, want %t and %q", got, tt.want, tt.says)
			}
			if !got.OK && got.Reason != v1alpha1.ReasonNamespaceNotAllowed {
				t.Errorf("reason %s", got.Reason)
			}
		})
	}
}

func TestAccessMissingNamesTheCommand(t *testing.T) {
	if got := AccessMissing("ci", "kubectl create rolebinding x"); !strings.HasSuffix(got, "an admin must run: kubectl create rolebinding x") {
		t.Errorf("got %q", got)
	}
}
