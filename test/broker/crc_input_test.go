package broker_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// TestBadInputs fails instances before anything exists, so that a pool tries
// again with the pauses of its breaker.
func TestBadInputs(t *testing.T) {
	t.Parallel()
	const canary = "Q2FuYXJ5"
	for _, row := range []struct {
		name, secret, key, value string
		reason                   v1alpha1.Reason
		text                     string
	}{
		{"no pull secret", guestcluster.DefaultPullSecret, "", "", v1alpha1.ReasonInvalidPullSecret, "it does not exist"},
		{"an empty pull secret", guestcluster.DefaultPullSecret, guestcluster.DockerConfigKey, "", v1alpha1.ReasonInvalidPullSecret, "it is empty"},
		{"another key", guestcluster.DefaultPullSecret, "config.json", goodPullSecret, v1alpha1.ReasonInvalidPullSecret, "it is empty"},
		{"no JSON", guestcluster.DefaultPullSecret, guestcluster.DockerConfigKey, canary, v1alpha1.ReasonInvalidPullSecret, "not JSON"},
		{"no auths", guestcluster.DefaultPullSecret, guestcluster.DockerConfigKey, "{}", v1alpha1.ReasonInvalidPullSecret, "no auths"},
		{"an entry without auth", guestcluster.DefaultPullSecret, guestcluster.DockerConfigKey, `{"auths": {"` + canary + `": {}}}`, v1alpha1.ReasonInvalidPullSecret, "neither auth nor credsStore"},
		{"no base64", guestcluster.DefaultPullSecret, guestcluster.DockerConfigKey, `{"auths": {"quay.io": {"auth": "` + canary + `!"}}}`, v1alpha1.ReasonInvalidPullSecret, "no base64"},
		{"no boot key", bootKeySecret, "", "", v1alpha1.ReasonMissingBundleSSHKey, "does not exist"},
		{"another boot key's name", bootKeySecret, "ssh-privatekey", canary, v1alpha1.ReasonMissingBundleSSHKey, "is empty or missing"},
		{"a malformed boot key", bootKeySecret, guestcluster.BootKeyKey, canary, v1alpha1.ReasonMissingBundleSSHKey, "is no private key"},
		{"an encrypted boot key", bootKeySecret, guestcluster.BootKeyKey, "-----BEGIN ENCRYPTED PRIVATE KEY-----\n" + canary + "\n-----END ENCRYPTED PRIVATE KEY-----\n", v1alpha1.ReasonMissingBundleSSHKey, "is encrypted: remove the passphrase"},
		{"a public boot key", bootKeySecret, guestcluster.BootKeyKey, "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJtT5hiNnC1W6gGbc8G1bOyOZ8jgvB1q7Cbd4tTfA2oH x", v1alpha1.ReasonMissingBundleSSHKey, "is a public key"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := runningCRC(t, nil)
			w.replaceSecret(row.secret, row.key, row.value)
			w.pool(crcPool(1))
			i := w.instanceCondition("pool-0", v1alpha1.ConditionReady, row.reason, "Secret "+w.namespace+"/"+row.secret, row.text,
				"kubectl -n "+w.namespace+" create secret generic "+row.secret)
			if i.Status.Phase != v1alpha1.InstanceFailed || i.Status.Run != nil || strings.Contains(i.Status.Failure.Message, canary) {
				t.Errorf("phase %s, run %v, failure %+v", i.Status.Phase, i.Status.Run, i.Status.Failure)
			}
			if left := w.children(t.Context(), i.UID); left != "" {
				t.Error(left)
			}
			w.poolCondition(v1alpha1.ConditionProvisioningHealthy, v1alpha1.ReasonBreakerOpen, string(row.reason))
		})
	}
}

// replaceSecret leaves none when there is no key.
func (w crcWorld) replaceSecret(name, key, value string) {
	w.t.Helper()
	if err := shared.Kube.CoreV1().Secrets(w.namespace).Delete(w.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	if key != "" {
		w.secret(name, key, value)
	}
}

// TestInputsAreCopied proves that a pull secret may go in mid-run, and that
// another name is read.
func TestInputsAreCopied(t *testing.T) {
	t.Parallel()
	w := runningCRC(t, nil)
	w.replaceSecret(guestcluster.DefaultPullSecret, "", "")
	w.secret("mine", corev1.DockerConfigJsonKey, goodPullSecret)
	template := byHand()
	template.PullSecretRef = &v1alpha1.LocalReference{Name: "mine"}
	w.instance(template)
	w.instanceCondition(alone, v1alpha1.ConditionProvisioningAllowed, v1alpha1.ReasonNamespaceEnabled)
	i := w.ready(alone)
	key, err := shared.Kube.CoreV1().Secrets(w.namespace).Get(t.Context(), bootKeySecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.wantIdentity(i, string(key.Data[guestcluster.BootKeyKey]))
}

func TestInstanceWaitsForItsBundle(t *testing.T) {
	t.Parallel()
	g := newBundle(t)
	w := runningCRC(t, nil)
	i := w.instance(g.template())
	w.instanceCondition(alone, v1alpha1.ConditionReady, v1alpha1.ReasonBundleNotReady, g.bundle.Name+" is being prepared")
	g.mark(func(b *v1alpha1.CRCBundle) { b.MarkLost("the disk of the storage broke", metav1.Now()) })
	w.instanceCondition(alone, v1alpha1.ConditionReady, v1alpha1.ReasonBundleFailed, "the disk of the storage broke", "kubectl delete crcbundle "+g.bundle.Name)
	if left := w.children(t.Context(), i.UID); left != "" {
		t.Error(left)
	}
	g.ready()
	if i := w.ready(alone); i.Status.CRC.Bundle.VolumeUID != g.volume.UID {
		t.Errorf("bundle is %+v", i.Status.CRC.Bundle)
	}
}

func TestInstanceWithoutABundle(t *testing.T) {
	t.Parallel()
	w := runningCRC(t, nil)
	w.instance(v1alpha1.ClusterTemplate{CRCVersion: "6.0.0"})
	w.instanceCondition(alone, v1alpha1.ConditionReady, v1alpha1.ReasonBundleNotReady, "CRCBundle crc-6.0.0-amd64 does not exist", "make it yourself")
}

// TestBundleThatChanged has a bundle whose volume is not the one in its status.
func TestBundleThatChanged(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		volume string
		text   string
	}{
		"another volume": {"another", "was replaced by another"},
		"no boot key":    {"", "boot-key does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newBundle(t)
			g.ready()
			if row.volume != "" {
				g.mark(func(b *v1alpha1.CRCBundle) { b.Status.GoldenVolume.UID = "another" })
			} else if err := shared.Kube.CoreV1().Secrets(guestcluster.BundleNamespace).Delete(t.Context(), v1alpha1.BootKeySecretName(g.bundle.Name), metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			w := runningCRC(t, nil)
			i := w.instance(g.template())
			failed := w.instanceCondition(alone, v1alpha1.ConditionReady, v1alpha1.ReasonBundleChanged, row.text, "kubectl delete crcbundle "+g.bundle.Name)
			if failed.Status.Phase != v1alpha1.InstanceFailed || failed.Status.Run != nil {
				t.Errorf("phase %s, run %v", failed.Status.Phase, failed.Status.Run)
			}
			if left := w.children(t.Context(), i.UID); left != "" {
				t.Error(left)
			}
		})
	}
}
