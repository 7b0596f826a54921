package guest_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"opdev.io/guestcluster/test/rig/guest/certs"
)

const (
	routeHost  = "api-one.apps.example.com"
	pullSecret = `{"auths":{"quay.io":{"auth":"cGFya2VkOnBhcmtlZA=="}}}`
	newKey     = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g test"

	// names lets the guest find its own API server, as the fixups do.
	names = `set -e
printf 'listen-address=10.0.2.2\naddress=/apps-crc.testing/10.0.2.2\naddress=/api.crc.testing/10.0.2.2\naddress=/api-int.crc.testing/10.0.2.2\n' |
  sudo tee /etc/dnsmasq.d/crc-dnsmasq.conf >/dev/null
sudo systemctl enable --now dnsmasq.service
sudo systemctl start ovs-configuration.service
sudo nmcli con modify --temporary ovs-if-br-ex ipv4.dns 10.0.2.2,10.0.2.1 ipv4.dns-search crc.testing
sudo systemctl restart NetworkManager.service
host -R 3 foo.apps-crc.testing`
)

func openshift(group, plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}
}

// story is one guest on its way from a parked disk to a cluster.
type story struct {
	*machine
	ctx    context.Context
	shell  *ssh.Client
	admin  *rest.Config
	kube   *kubernetes.Clientset
	custom dynamic.Interface
}

func (s *story) use(config *rest.Config) {
	s.admin = config
	s.kube, s.custom = kubernetes.NewForConfigOrDie(config), dynamic.NewForConfigOrDie(config)
}

func (s *story) get(group, plural, name string) *unstructured.Unstructured {
	s.t.Helper()
	o, err := s.custom.Resource(openshift(group, plural)).Get(s.ctx, name, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return o
}

func (s *story) patch(group, plural, name, patch string) {
	s.t.Helper()
	_, err := s.custom.Resource(openshift(group, plural)).Patch(s.ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}

func TestFromParkedToCluster(t *testing.T) {
	s := &story{machine: boot(t), ctx: t.Context()}
	s.shell = s.login()
	for _, chapter := range []struct {
		name string
		tell func(*testing.T)
	}{
		{"the disk is parked", s.parkedDisk},
		{"the kubelet brings the API", s.startKubelet},
		{"the cluster is parked", s.parkedCluster},
		{"the kubelet asks three times", s.approve},
		{"a namespace gets its account", s.namespace},
		{"the pull secret waits for the stale leader", s.pullSecret},
		{"a named certificate rolls the API server", s.namedCertificate},
		{"a new authority ends the old kubeconfig", s.trust},
		{"a reboot keeps the state", s.reboot},
		{"a disabled kubelet stays down", s.disabled},
	} {
		if !t.Run(chapter.name, chapter.tell) {
			t.FailNow()
		}
	}
}

func (s *story) parkedDisk(t *testing.T) {
	for command, want := range map[string]string{
		"systemctl is-enabled kubelet; true":                                                         "disabled",
		"systemctl is-active kubelet; true":                                                          "inactive",
		"systemctl status nonsense.service 2>&1; echo $?":                                            "Unit nonsense.service could not be found.\n4",
		"diff .ssh/authorized_keys .ssh/authorized_keys.d/ignition && stat -c %a%U .ssh":             "700core",
		"sudo cat /etc/systemd/system/kubelet.service.d/80-nodeip.conf | grep -c NODE_IP=":           "1",
		"sudo passwd --lock core >/dev/null && echo locked":                                          "locked",
		"ip -4 route get 1.1.1.1 | grep -o 'src [0-9.]*'":                                            "src 10.0.2.2",
		"sudo ls /var/lib/kubelet/config.json 2>&1 | grep -c 'No such'":                              "1",
		"curl -sk --max-time 2 https://10.0.2.2:6443 >/dev/null; echo $?":                            "7",
		"nmcli con modify x ipv4.dns 1 2>&1; sudo nmcli con modify x ipv4.dns 1.1.1.1 2>&1; echo $?": "Error: Insufficient privileges\nError: unknown connection 'x'.\n10",
	} {
		if got := s.must(s.shell, command); got != want {
			t.Errorf("%s: got %q, want %q", command, got, want)
		}
	}
	for _, file := range certificateFiles {
		if !s.expired(file) {
			t.Errorf("%s is not expired", file)
		}
	}
}

var certificateFiles = []string{
	"/var/lib/kubelet/pki/kubelet-client-current.pem", "/var/lib/kubelet/pki/kubelet-server-current.pem",
	"/etc/kubernetes/static-pod-resources/kube-apiserver-certs/secrets/aggregator-client/tls.crt",
}

func (s *story) expired(file string) bool {
	_, err := s.run(s.shell, "sudo openssl x509 -in "+file+" -noout -checkend 0")
	return err != nil
}

func (s *story) startKubelet(t *testing.T) {
	s.t = t
	s.must(s.shell, names)
	start := time.Now()
	s.must(s.shell, "sudo systemctl daemon-reload && sudo systemctl enable kubelet && sudo systemctl start kubelet")
	s.use(s.config())
	s.eventually("reach the API", func() error {
		_, err := s.kube.CoreV1().Nodes().List(s.ctx, metav1.ListOptions{})
		return err
	})
	t.Logf("the API answered after %s", time.Since(start).Round(100*time.Millisecond))
	s.eventually("reach the API inside", func() error {
		out, err := s.run(s.shell, "timeout 30s oc get nodes --context admin --cluster crc --kubeconfig /opt/kubeconfig")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

func (s *story) parkedCluster(t *testing.T) {
	s.t = t
	secret, err := s.kube.CoreV1().Secrets("openshift-config").Get(s.ctx, "pull-secret", metav1.GetOptions{})
	if err != nil || string(secret.Data[".dockerconfigjson"]) != "{}\n" {
		t.Errorf("the pull secret is %q, %v", secret.Data, err)
	}
	secret, err = s.kube.CoreV1().Secrets("openshift-config").Get(s.ctx, "htpass-secret", metav1.GetOptions{})
	if err != nil || !strings.Contains(string(secret.Data["htpasswd"]), "kubeadmin:$2a$") {
		t.Errorf("the passwords are not there: %v", err)
	}
	version := s.get("config.openshift.io", "clusterversions", "version")
	if id, found, _ := unstructured.NestedString(version.Object, "spec", "clusterID"); id != "" || !found {
		t.Errorf("the cluster ID is %q", id)
	}
	history, _, _ := unstructured.NestedSlice(version.Object, "status", "history")
	if len(history) != 1 || history[0].(map[string]any)["version"] != "4.19.3" {
		t.Errorf("the history is %v", history)
	}
	operators, err := s.custom.Resource(openshift("config.openshift.io", "clusteroperators")).List(s.ctx, metav1.ListOptions{})
	if err != nil || len(operators.Items) < 10 {
		t.Errorf("got %d operators, %v", len(operators.Items), err)
	}
}

// approve plays the approver and looks at who asks.
func (s *story) approve(t *testing.T) {
	s.t = t
	api := s.kube.CertificatesV1().CertificateSigningRequests()
	asked := map[string][]string{}
	s.eventually("get the node ready", func() error {
		list, err := api.List(s.ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, csr := range list.Items {
			if len(csr.Status.Conditions) > 0 {
				continue
			}
			asked[csr.Spec.SignerName] = append(asked[csr.Spec.SignerName], csr.Spec.Username)
			csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
				Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test",
			})
			if _, err := api.UpdateApproval(s.ctx, csr.Name, &csr, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		return s.nodeReady()
	})
	const bootstrapper = "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper"
	if got := asked[certificatesv1.KubeAPIServerClientKubeletSignerName]; !slices.Equal(got, []string{bootstrapper, bootstrapper}) {
		t.Errorf("client certificates were asked for by %v", got)
	}
	if got := asked[certificatesv1.KubeletServingSignerName]; !slices.Equal(got, []string{"system:node:crc"}) {
		t.Errorf("serving certificates were asked for by %v", got)
	}
	s.eventually("get fresh certificates", func() error {
		for _, file := range certificateFiles {
			if s.expired(file) {
				return fmt.Errorf("%s is expired", file)
			}
		}
		return nil
	})
	s.eventually("settle", s.stable)
}

func (s *story) nodeReady() error {
	node, err := s.kube.CoreV1().Nodes().Get(s.ctx, "crc", metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("the node is not ready: %v", node.Status.Conditions)
}

// stable is what every operator must be.
func (s *story) stable() error {
	operators, err := s.custom.Resource(openshift("config.openshift.io", "clusteroperators")).List(s.ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	want := map[string]string{"Available": "True", "Progressing": "False", "Degraded": "False"}
	for _, operator := range operators.Items {
		conditions, _, _ := unstructured.NestedSlice(operator.Object, "status", "conditions")
		for _, item := range conditions {
			c := item.(map[string]any)
			if status, ok := want[c["type"].(string)]; ok && c["status"] != status {
				return fmt.Errorf("operator %s has %v=%v", operator.GetName(), c["type"], c["status"])
			}
		}
	}
	return nil
}

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
	s.eventually("see the certificate", func() error { return s.shows(routeHost, "test") })
	s.eventually("settle", s.stable)
	if err := s.shows("api.crc.testing", "kube-apiserver-lb-signer"); err != nil {
		t.Error(err)
	}
}

// shows tells who signed the certificate for a server name.
func (s *story) shows(name, issuer string) error {
	conn, err := tls.Dial("tcp", s.Address+":6443", &tls.Config{ServerName: name, InsecureSkipVerify: true})
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
	if got := s.must(s.shell, "systemctl is-active kubelet dnsmasq"); got != "active\nactive" {
		t.Errorf("after the reboot: %s", got)
	}
	s.eventually("reach the API", func() error {
		_, err := s.kube.CoreV1().Namespaces().Get(s.ctx, "tests", metav1.GetOptions{})
		return err
	})
	if err := s.shows(routeHost, "test"); err != nil {
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
