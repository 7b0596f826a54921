//go:build e2e

package e2e

import (
	"encoding/base64"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// canaries are strings that may stand in Secrets only: parts of the private key
// in the lease's kubeconfig and of the instance's identity, in every encoding.
func canaries(t *testing.T, ns string, lease *v1alpha1.ClusterLease) []string {
	t.Helper()
	access, err := rig.Kube.CoreV1().Secrets(ns).Get(t.Context(), lease.AccessSecretName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.Load(access.Data[guestcluster.KubeconfigKey])
	if err != nil {
		t.Fatal(err)
	}
	ref := lease.Status.InstanceRef
	instance := &v1alpha1.ClusterInstance{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}}
	identity, err := rig.Kube.CoreV1().Secrets(ref.Namespace).Get(t.Context(), instance.IdentitySecretName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, user := range config.AuthInfos {
		found = append(found, encodings(user.ClientKeyData)...)
	}
	for _, key := range []string{guestcluster.SSHPrivateKeyKey, guestcluster.AdminKeyKey, guestcluster.ServingKeyKey} {
		found = append(found, encodings(identity.Data[key])...)
	}
	if len(found) < 8 {
		t.Fatalf("only %d canaries: are there keys in the Secrets?", len(found))
	}
	return found
}

// encodings: a line out of the middle of the PEM, and the same as base64 of it.
func encodings(pem []byte) []string {
	lines := strings.Split(strings.TrimSpace(string(pem)), "\n")
	if len(lines) < 3 {
		return nil
	}
	whole := base64.StdEncoding.EncodeToString(pem)
	return []string{lines[1], whole[len(whole)/2 : len(whole)/2+40]}
}

// checkNoCanary reads every object of every kind but Secrets, and all logs.
func checkNoCanary(t *testing.T, ns string, secrets []string) {
	t.Helper()
	objects, err := rig.EverythingButSecrets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(objects) < 50 {
		t.Fatalf("read only %d objects", len(objects))
	}
	for name, text := range objects {
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds a private key", name)
			}
		}
	}
	for _, namespace := range []string{ns, poolNamespace, guestcluster.SystemNamespace} {
		text := podLogs(t, namespace)
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("a log in namespace %s holds a private key", namespace)
			}
		}
	}
}

// podLogs are the logs of all containers of all pods of a namespace.
func podLogs(t *testing.T, ns string) string {
	t.Helper()
	pods, err := rig.Kube.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, p := range pods.Items {
		for _, c := range append(p.Spec.InitContainers, p.Spec.Containers...) {
			stream, err := rig.Kube.CoreV1().Pods(ns).GetLogs(p.Name, &corev1.PodLogOptions{Container: c.Name}).Stream(t.Context())
			if err != nil {
				continue // not started, or going: it has no log
			}
			_, err = io.Copy(&all, stream)
			if err := stream.Close(); err != nil {
				t.Error(err)
			}
			if err != nil {
				t.Error(err)
			}
		}
	}
	return all.String()
}
