package instance

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

func TestMissingRouteAPIIsExplained(t *testing.T) {
	i := provisioning()
	w := newWorld(t, []runtime.Object{i}, nil)
	w.dynamic.PrependReactor("*", "routes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, notServedError(routeGVR)
	})
	after, err := w.explain(w.ctx, i, w.repairNetwork(w.ctx, i))
	if err != nil || after != lookAgain || i.Status.ReadyReason() != v1alpha1.ReasonRouteAPIMissing {
		t.Errorf("after %s, error %v, Ready is %q", after, err, i.Status.ReadyReason())
	}
}

func TestForeignObjectIsExplainedOnceProvisioned(t *testing.T) {
	i := provisioning()
	i.MarkProvisioned("4.19.3")
	i.MarkReachable(metav1.NewTime(worldNow))
	w := newWorld(t, []runtime.Object{i}, nil)
	after, err := w.explain(w.ctx, i, &foreignError{kind: "Service", namespace: "ci", name: "x"})
	if err != nil || after != lookAgain || !i.IsReady() {
		t.Errorf("after %s, error %v, Ready %t", after, err, i.IsReady())
	}
	c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionProvisioningAllowed)
	if c == nil || c.Reason != string(v1alpha1.ReasonForeignObject) {
		t.Errorf("condition %+v", c)
	}
}
