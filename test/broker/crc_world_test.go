package broker_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/test/internal/broker"
)

const (
	goodPullSecret = `{"auths": {"quay.io": {"auth": "dXNlcjpodW50ZXIy"}}}`
	bootKeySecret  = "boot-key"
	alone          = "alone"
)

// crcWorld is a world with KubeVirt and CDI, in which crc instances can be made.
type crcWorld struct{ *world }

func newCRCWorld(t testing.TB, acts script) crcWorld {
	t.Helper()
	installBundles(t)
	w := crcWorld{newWorld(t, acts)}
	broker.StartMachines(t, shared, w.namespace)
	w.secret(guestcluster.DefaultPullSecret, guestcluster.DockerConfigKey, goodPullSecret)
	w.secret(bootKeySecret, guestcluster.BootKeyKey, bootKey(t))
	return w
}

// runningCRC has controllers; in the end nothing may be left.
func runningCRC(t testing.TB, acts script) crcWorld {
	t.Helper()
	w := newCRCWorld(t, acts)
	w.start(nil)
	t.Cleanup(w.giveBack)
	return w
}

// giveBack deletes standalone instances too.
func (w crcWorld) giveBack() {
	if w.t.Failed() {
		return
	}
	if err := w.leases.DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		w.t.Error(err)
	}
	err := w.instances.Delete(context.Background(), alone, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Error(err)
	}
	w.world.giveBack()
	w.eventually("machines and disks to go", func(ctx context.Context) string { return w.guestsLeft(ctx, "") })
}

func (w crcWorld) secret(name, key, value string) {
	w.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{key: []byte(value)}}
	if _, err := shared.Kube.CoreV1().Secrets(w.namespace).Create(w.t.Context(), secret, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func bootKey(t testing.TB) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "core")
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(block))
}

// byHand is the template of a disk image without a bundle.
func byHand() v1alpha1.ClusterTemplate {
	return v1alpha1.ClusterTemplate{ReleaseImage: "https://files.test/crc.qcow2", BundleSSHKeyRef: &v1alpha1.LocalReference{Name: bootKeySecret}}
}

// crcPool is a pool of one instance that needs no bundle.
func crcPool(spares int32) func(*v1alpha1.ClusterPoolSpec) {
	return func(s *v1alpha1.ClusterPoolSpec) {
		s.Type, s.MaxSize, s.WarmSpares, s.Template = v1alpha1.TypeCRC, 1, spares, byHand()
		s.Provisioning = &v1alpha1.Provisioning{RetryLimit: 1}
	}
}

// instance makes a standalone one.
func (w crcWorld) instance(template v1alpha1.ClusterTemplate) *v1alpha1.ClusterInstance {
	w.t.Helper()
	i, err := w.instances.Create(w.t.Context(), &v1alpha1.ClusterInstance{
		ObjectMeta: metav1.ObjectMeta{Name: alone}, Spec: v1alpha1.ClusterInstanceSpec{Type: v1alpha1.TypeCRC, Template: template},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return i
}

func (w crcWorld) ready(name string) *v1alpha1.ClusterInstance {
	w.t.Helper()
	return w.instanceCondition(name, v1alpha1.ConditionReady, v1alpha1.ReasonInstanceReady)
}

func (w crcWorld) get(gvr schema.GroupVersionResource, name string) *unstructured.Unstructured {
	w.t.Helper()
	object, err := shared.Dynamic.Resource(gvr).Namespace(w.namespace).Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return object
}

func (w crcWorld) remove(gvr schema.GroupVersionResource, name string) {
	w.t.Helper()
	if err := shared.Dynamic.Resource(gvr).Namespace(w.namespace).Delete(w.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

var claimGVR = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}

// guestsLeft names a machine, a disk or a right to clone that is left.
func (w crcWorld) guestsLeft(ctx context.Context, name string) string {
	for _, gvr := range []schema.GroupVersionResource{broker.MachineGVR, broker.RunningGVR, broker.DataVolumeGVR, claimGVR} {
		list, err := shared.Dynamic.Resource(gvr).Namespace(w.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for _, object := range list.Items {
			if name == "" || object.GetName() == name {
				return fmt.Sprintf("%s %s is left", object.GetKind(), object.GetName())
			}
		}
	}
	bindings, err := shared.Kube.RbacV1().RoleBindings(guestcluster.BundleNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	for _, b := range bindings.Items {
		if strings.HasPrefix(b.Annotations[guestcluster.OwnerInstanceAnnotation], w.namespace+"/") {
			return "RoleBinding " + b.Name + " is left"
		}
	}
	return ""
}

// golden is a CRCBundle of a version that no other test has.
type golden struct {
	t      testing.TB
	bundle *v1alpha1.CRCBundle
	volume *corev1.PersistentVolumeClaim
	key    string
}

func newBundle(t testing.TB) *golden {
	t.Helper()
	installBundles(t)
	version := "5." + strings.TrimPrefix(shared.Name("v"), "v-") + ".1"
	bundle := &v1alpha1.CRCBundle{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.BundleName(version, "")}, Spec: v1alpha1.CRCBundleSpec{Version: version, Arch: "amd64"}}
	bundle, err := shared.Guest.GuestclusterV1alpha1().CRCBundles().Create(t.Context(), bundle, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	g := &golden{t: t, bundle: bundle, key: bootKey(t)}
	t.Cleanup(func() {
		_ = shared.Guest.GuestclusterV1alpha1().CRCBundles().Delete(context.Background(), bundle.Name, metav1.DeleteOptions{})
	})
	return g
}

func (g *golden) template() v1alpha1.ClusterTemplate {
	return v1alpha1.ClusterTemplate{CRCVersion: g.bundle.Spec.Version}
}

// prepare makes volume and key, as a run of prepare-bundle does.
func (g *golden) prepare() {
	g.t.Helper()
	core := shared.Kube.CoreV1()
	meta := metav1.ObjectMeta{Name: g.bundle.Name, OwnerReferences: []metav1.OwnerReference{g.bundle.Owner()}}
	volume, err := core.PersistentVolumeClaims(guestcluster.BundleNamespace).Create(g.t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: meta,
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		g.t.Fatal(err)
	}
	g.volume = volume
	meta.Name = v1alpha1.BootKeySecretName(g.bundle.Name)
	secret := &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{guestcluster.BootKeyKey: []byte(g.key)}}
	if _, err := core.Secrets(guestcluster.BundleNamespace).Create(g.t.Context(), secret, metav1.CreateOptions{}); err != nil {
		g.t.Fatal(err)
	}
}

// mark changes the bundle's status as its controller does.
func (g *golden) mark(change func(*v1alpha1.CRCBundle)) {
	g.t.Helper()
	bundles := shared.Guest.GuestclusterV1alpha1().CRCBundles()
	b, err := bundles.Get(g.t.Context(), g.bundle.Name, metav1.GetOptions{})
	if err != nil {
		g.t.Fatal(err)
	}
	change(b)
	if g.bundle, err = bundles.UpdateStatus(g.t.Context(), b, metav1.UpdateOptions{}); err != nil {
		g.t.Fatal(err)
	}
}

func (g *golden) ready() {
	g.t.Helper()
	g.prepare()
	g.mark(func(b *v1alpha1.CRCBundle) {
		b.MarkReady(v1alpha1.Prepared{
			GoldenVolume: v1alpha1.ObjectReference{Namespace: guestcluster.BundleNamespace, Name: b.Name, UID: g.volume.UID},
			SSHKeySecret: v1alpha1.BootKeySecretName(b.Name), OCPVersion: b.Spec.Version, SHA256: checksum,
		})
	})
}

// stands proves that the golden volume was left alone.
func (g *golden) stands() {
	g.t.Helper()
	live, err := shared.Kube.CoreV1().PersistentVolumeClaims(guestcluster.BundleNamespace).Get(g.t.Context(), g.bundle.Name, metav1.GetOptions{})
	if err != nil || live.UID != g.volume.UID || live.DeletionTimestamp != nil {
		g.t.Errorf("golden volume: %v", err)
	}
}
