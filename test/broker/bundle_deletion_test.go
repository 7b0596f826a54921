package broker_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/test/internal/broker"
)

// TestBundleIsDeletedWhileItIsCloned keeps the volume as long as a pod mounts
// it, says so, and gives the name free afterwards.
func TestBundleIsDeletedWhileItIsCloned(t *testing.T) {
	t.Parallel()
	b := newBundleWorld(t, nil)
	b.start(nil)
	first := b.create(nil)
	b.ready()
	pods := shared.Kube.CoreV1().Pods(guestcluster.BundleNamespace)
	if _, err := pods.Create(t.Context(), podThatMounts(b.name, b.name), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.delete()
	b.phase(v1alpha1.BundleReady, v1alpha1.ReasonBundleDeleting, "waiting for PersistentVolumeClaim "+b.name+" (kept by finalizer kubernetes.io/pvc-protection)")
	if err := pods.Delete(t.Context(), b.name, now()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the bundle to go", b.gone)
	if second := b.create(nil); second.UID == first.UID {
		t.Error("it is the same bundle")
	}
	b.ready()
}

func TestBundleIsDeletedWhileItIsPrepared(t *testing.T) {
	t.Parallel()
	wait, _ := gate(t)
	b := newBundleWorld(t, func(string) prepareAct { return prepareAct{Wait: wait} })
	b.start(nil)
	b.create(nil)
	b.phase(v1alpha1.BundlePreparing, v1alpha1.ReasonBundlePreparing, "is running")
	b.delete()
	eventually(t, "the bundle to go", b.gone)
}

// TestForeignObjectsAreNotDeleted leaves what only has the bundle's names.
func TestForeignObjectsAreNotDeleted(t *testing.T) {
	t.Parallel()
	wait, _ := gate(t)
	b := newBundleWorld(t, func(string) prepareAct { return prepareAct{Wait: wait} })
	secrets := shared.Kube.CoreV1().Secrets(guestcluster.BundleNamespace)
	name := v1alpha1.BootKeySecretName(b.name)
	labels := map[string]string{guestcluster.BundleLabel: b.name}
	if _, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.start(nil)
	bundle := b.create(nil)
	b.phase(v1alpha1.BundlePreparing, v1alpha1.ReasonBundlePreparing, "is running")
	b.delete()
	broker.Gone[*v1alpha1.CRCBundle](t, b.bundles, bundle)
	if err := secrets.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
		t.Errorf("a Secret that has only our label: %v", err)
	}
}

// now deletes a pod that no kubelet ends.
func now() metav1.DeleteOptions {
	none := int64(0)
	return metav1.DeleteOptions{GracePeriodSeconds: &none}
}
