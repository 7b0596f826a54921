package resources

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

var now = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

func instance() *v1alpha1.ClusterInstance {
	slot := int32(3)
	return &v1alpha1.ClusterInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: "pool-3", UID: "uid-1"},
		Spec: v1alpha1.ClusterInstanceSpec{
			Type: v1alpha1.TypeCustom, Slot: &slot, PoolRef: &v1alpha1.OwnerPool{Name: "pool", UID: "pool-uid"},
		},
	}
}

func certificate(t *testing.T, raw []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(raw)
	if block == nil {
		t.Fatal("not PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func verify(t *testing.T, ca, cert []byte, o x509.VerifyOptions) error {
	t.Helper()
	o.Roots, o.CurrentTime = x509.NewCertPool(), now
	o.Roots.AppendCertsFromPEM(ca)
	_, err := certificate(t, cert).Verify(o)
	return err
}

func TestIdentityVerifies(t *testing.T) {
	secret, err := IdentitySecret(instance(), "gc.apps.example.org", nil, now)
	if err != nil {
		t.Fatal(err)
	}
	data := secret.Data
	if secret.Immutable == nil || !*secret.Immutable {
		t.Error("the identity is not immutable")
	}
	client := x509.VerifyOptions{KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if err := verify(t, data[guestcluster.AdminCAKey], data[guestcluster.AdminCertKey], client); err != nil {
		t.Errorf("client certificate against admin CA: %v", err)
	}
	if err := verify(t, data[guestcluster.ServingCAKey], data[guestcluster.AdminCertKey], client); err == nil {
		t.Error("the client certificate verifies against the serving CA")
	}
	for _, host := range []string{"gc.apps.example.org", instance().DerivedName() + ".ci.svc", "localhost", "127.0.0.1"} {
		if err := verify(t, data[guestcluster.ServingCAKey], data[guestcluster.ServingCertKey], x509.VerifyOptions{DNSName: host}); err != nil {
			t.Errorf("serving certificate for %s: %v", host, err)
		}
	}
	admin := certificate(t, data[guestcluster.AdminCertKey])
	if admin.Subject.CommonName != "system:admin" || !cmp.Equal(admin.Subject.Organization, []string{"system:masters"}) {
		t.Errorf("admin subject is %s", admin.Subject)
	}
	if got := admin.NotAfter.Sub(now); got != validity {
		t.Errorf("the certificate is valid for %s", got)
	}
}

func TestIdentityKeysFit(t *testing.T) {
	secret, err := IdentitySecret(instance(), "gc.apps.example.org", nil, now)
	if err != nil {
		t.Fatal(err)
	}
	data := secret.Data
	for _, pair := range [][2]string{
		{guestcluster.AdminCertKey, guestcluster.AdminKeyKey}, {guestcluster.ServingCertKey, guestcluster.ServingKeyKey},
	} {
		if _, err := tls.X509KeyPair(data[pair[0]], data[pair[1]]); err != nil {
			t.Errorf("%s and %s: %v", pair[0], pair[1], err)
		}
	}
	signer, err := ssh.ParsePrivateKey(data[guestcluster.SSHPrivateKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(ssh.MarshalAuthorizedKey(signer.PublicKey())), string(data[guestcluster.SSHPublicKeyKey])); diff != "" {
		t.Error(diff)
	}
}

func TestChildrenAreOwned(t *testing.T) {
	i := instance()
	route, err := Route(i, "gc.apps.example.org")
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range []metav1.Object{
		ServiceAccount(i), Role(i), RoleBinding(i), StepsBinding(i, "view"), Service(i), KubeconfigSecret(i), GatherConfigMap(i), route,
	} {
		owner := metav1.GetControllerOf(child)
		if owner == nil || owner.UID != i.UID || owner.Name != i.Name || owner.BlockOwnerDeletion != nil {
			t.Errorf("%T %s has owner %v", child, child.GetName(), owner)
		}
		if child.GetLabels()[guestcluster.InstanceUIDLabel] != "uid-1" || child.GetNamespace() != "ci" {
			t.Errorf("%T: labels %v, namespace %q", child, child.GetLabels(), child.GetNamespace())
		}
	}
}

func TestRouteDiffers(t *testing.T) {
	want, err := Route(instance(), "gc.apps.example.org")
	if err != nil {
		t.Fatal(err)
	}
	live := want.DeepCopy()
	_ = unstructured.SetNestedField(live.Object, int64(100), "spec", "to", "weight")
	if RouteDiffers(live, want) {
		t.Error("a defaulted field counts as a difference")
	}
	_ = unstructured.SetNestedField(live.Object, "evil.example.org", "spec", "host")
	if !RouteDiffers(live, want) {
		t.Error("another host does not count as a difference")
	}
}

func TestRepairService(t *testing.T) {
	want := Service(instance())
	live := want.DeepCopy()
	live.Spec.ClusterIP = "10.0.0.1"
	if RepairService(live, want) != nil {
		t.Error("an intact Service is repaired")
	}
	live.Spec.Selector = map[string]string{"app": "other"}
	fixed := RepairService(live, want)
	if fixed == nil || fixed.Spec.ClusterIP != "10.0.0.1" || !cmp.Equal(fixed.Spec.Selector, want.Spec.Selector) {
		t.Errorf("repaired to %+v", fixed)
	}
}

func TestRoleNamesAllItAllows(t *testing.T) {
	for topology, want := range map[v1alpha1.ClusterType]int{v1alpha1.TypeCustom: 1, v1alpha1.TypeCRC: 2} {
		i := instance()
		i.Spec.Type = topology
		rules := Role(i).Rules
		for _, r := range rules {
			if len(r.ResourceNames) != 1 || slices.Contains(r.Verbs, "create") {
				t.Errorf("%s: %+v", topology, r)
			}
		}
		if len(rules) != want {
			t.Errorf("%s: %+v", topology, rules)
		}
	}
}
