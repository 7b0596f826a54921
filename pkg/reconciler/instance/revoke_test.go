package instance

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/reconciler/instance/resources"
)

func rightsOf(i *v1alpha1.ClusterInstance) []runtime.Object {
	return []runtime.Object{
		asChild(i, roleBindingGVR.GroupVersion(), "RoleBinding", resources.StepsBindingName(i)),
		asChild(i, roleBindingGVR.GroupVersion(), "RoleBinding", i.DerivedName()),
		asChild(i, roleGVR.GroupVersion(), "Role", i.DerivedName()),
	}
}

func TestRightsGoBeforeTheKubeconfigIsRead(t *testing.T) {
	i := provisioning()
	w := newWorld(t, []runtime.Object{i}, rightsOf(i))
	if _, err := w.kube.CoreV1().Secrets("ci").Create(w.ctx, filled(i), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	gone := 0
	w.kube.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		gone = len(deletions(w.dynamic.Actions(), "rolebindings")) + len(deletions(w.dynamic.Actions(), "roles"))
		return false, nil, nil
	})
	if err := w.accept(w.ctx, i); err != nil || !i.IsProvisioned() || gone != 3 {
		t.Errorf("error %v, provisioned %t, %d of 3 rights gone before the Secret was read", err, i.IsProvisioned(), gone)
	}
}

func TestRightsAreLookedForOnceWhileServing(t *testing.T) {
	i := provisioning()
	w := newWorld(t, []runtime.Object{i}, rightsOf(i))
	for range 3 {
		if err := w.revokeOnce(w.ctx, i); err != nil {
			t.Fatal(err)
		}
	}
	if list := w.dynamic.Actions(); len(list) != 9 {
		t.Errorf("%d requests, want get, delete, get for each of 3: %v", len(list), list)
	}
}
