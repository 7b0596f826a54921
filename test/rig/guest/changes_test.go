package guest_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"opdev.io/guestcluster/test/rig/guest/certs"
)

func (s *story) namespace(t *testing.T) {
	s.t = t
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tests"}}
	if _, err := s.kube.CoreV1().Namespaces().Create(s.ctx, namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.eventually("see the account", func() error {
		_, err := s.kube.CoreV1().ServiceAccounts("tests").Get(s.ctx, "default", metav1.GetOptions{})
		return err
	})
}

func (s *story) pullSecret(t *testing.T) {
	s.t = t
	_, err := s.kube.CoreV1().Secrets("openshift-config").Patch(s.ctx, "pull-secret", types.MergePatchType,
		fmt.Appendf(nil, `{"stringData":{".dockerconfigjson":%q}}`, pullSecret), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.patch("machineconfiguration.openshift.io", "machineconfigs", "99-master-ssh",
		`{"spec":{"config":{"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["`+newKey+`"]}]}}}}`)
	// A new namespace's account shows that later changes had time to act.
	s.must(s.shell, "rm .ssh/authorized_keys.d/ignition; sleep 3")
	if out, err := s.run(s.shell, "sudo ls /var/lib/kubelet/config.json .ssh/authorized_keys.d/ignition"); !strings.Contains(out, "No such file") {
		t.Errorf("the stale leader worked: %s, %v", out, err)
	}
	const mco = "openshift-machine-config-operator"
	if err := s.kube.CoreV1().ConfigMaps(mco).Delete(s.ctx, "machine-config-controller", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.must(s.shell, "timeout 30s oc delete -A lease --all --context admin --cluster crc --kubeconfig /opt/kubeconfig")
	s.eventually("see config.json", func() error {
		out, err := s.run(s.shell, "sudo cat /var/lib/kubelet/config.json && stat -c %a%U .ssh/authorized_keys.d/ignition && cat .ssh/authorized_keys.d/ignition")
		if want := pullSecret + "600core\n" + newKey; err != nil || out != want {
			return fmt.Errorf("got %q, %w, want %q", out, err, want)
		}
		return nil
	})
}

func (s *story) namedCertificate(t *testing.T) {
	s.t = t
	ca, err := certs.NewCA("test")
	if err != nil {
		t.Fatal(err)
	}
	s.routeCA = ca.Cert
	leaf, err := ca.Issue(certs.Leaf{User: routeHost, Names: []string{routeHost}, From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "route"}, Type: corev1.SecretTypeTLS, Data: map[string][]byte{"tls.crt": leaf.Cert, "tls.key": leaf.Key}}
	if _, err := s.kube.CoreV1().Secrets("openshift-config").Create(s.ctx, secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.patch("config.openshift.io", "apiservers", "cluster",
		`{"spec":{"servingCerts":{"namedCertificates":[{"names":["`+routeHost+`"],"servingCertificate":{"name":"route"}}]}}}`)
	s.eventually("see the operator progressing", func() error {
		if err := s.stable(); err == nil {
			return fmt.Errorf("all is stable")
		}
		return nil
	})
	s.eventually("see the certificate", func() error { return s.shows(routeHost, "test", s.routeCA) })
	s.eventually("settle", s.stable)
	if err := s.shows("api.crc.testing", "kube-apiserver-lb-signer", s.config().CAData); err != nil {
		t.Error(err)
	}
}

// shows wants a certificate for a server name that a CA has signed.
func (s *story) shows(name, issuer string, ca []byte) error {
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(ca)
	conn, err := tls.Dial("tcp", s.Address+":6443", &tls.Config{ServerName: name, RootCAs: trusted})
	if err != nil {
		return err
	}
	defer conn.Close()
	if got := conn.ConnectionState().PeerCertificates[0].Issuer.CommonName; got != issuer {
		return fmt.Errorf("%s shows a certificate of %s, want %s", name, got, issuer)
	}
	return nil
}

func (s *story) trust(t *testing.T) {
	s.t = t
	ca, err := certs.NewCA("admin-kubeconfig-signer-custom")
	if err != nil {
		t.Fatal(err)
	}
	client, err := ca.Issue(certs.Leaf{User: "system:admin", Groups: []string{"system:masters"}, From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.kube.CoreV1().ConfigMaps("openshift-config").Patch(s.ctx, "admin-kubeconfig-client-ca", types.MergePatchType,
		fmt.Appendf(nil, `{"data":{"ca-bundle.crt":%q}}`, ca.Cert), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	old := s.kube
	config := rest.CopyConfig(s.admin)
	config.CertData, config.KeyData = client.Cert, client.Key
	s.use(config)
	s.eventually("use the new certificate", func() error {
		_, err := s.kube.CoreV1().Nodes().List(s.ctx, metav1.ListOptions{})
		return err
	})
	if _, err := old.CoreV1().Nodes().List(s.ctx, metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("the old certificate: got %v, want Unauthorized", err)
	}
	if out, err := s.run(s.shell, "oc get nodes --kubeconfig /opt/kubeconfig 2>&1"); err == nil || !strings.Contains(out, "Unauthorized") && !strings.Contains(out, "logged in") {
		t.Errorf("/opt/kubeconfig still works: %s", out)
	}
}

func (s *story) reboot(t *testing.T) {
	s.t = t
	s.must(s.shell, "sudo systemctl reboot")
	s.eventually("lose the shell", func() error {
		if _, err := s.run(s.shell, "true"); err != nil {
			return nil
		}
		return fmt.Errorf("it still works")
	})
	s.shell = s.login()
	s.eventually("see the units come back", func() error {
		out, err := s.run(s.shell, "systemctl is-active kubelet dnsmasq")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	s.eventually("reach the API", func() error {
		_, err := s.kube.CoreV1().Namespaces().Get(s.ctx, "tests", metav1.GetOptions{})
		return err
	})
	if err := s.shows(routeHost, "test", s.routeCA); err != nil {
		t.Error(err)
	}
}

func (s *story) disabled(t *testing.T) {
	s.t = t
	s.must(s.shell, "sudo systemctl disable kubelet")
	if err := s.Reboot(s.ctx); err != nil {
		t.Fatal(err)
	}
	s.shell = s.login()
	if got := s.must(s.shell, "systemctl is-active kubelet; true"); got != "inactive" {
		t.Errorf("the kubelet is %s", got)
	}
}
