package trust

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestLabelledConfigMapsAreFilled(t *testing.T) {
	named := func(name, label string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "some", Name: name, Labels: map[string]string{Label: label}}}
	}
	client := fake.NewClientset(named("asks", "true"), named("refuses", "false"))
	injector, err := New(client, []byte("the rig's authority\n"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	injector.factory.Start(ctx.Done())
	injector.factory.WaitForCacheSync(ctx.Done())
	if err := injector.reconcile(ctx); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"asks": true, "refuses": false} {
		found, err := client.CoreV1().ConfigMaps("some").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		text := found.Data[Key]
		if filled := strings.HasSuffix(text, "the rig's authority\n") && strings.Contains(text, "BEGIN CERTIFICATE"); filled != want {
			t.Errorf("%s is filled: %v", name, filled)
		}
	}
}
