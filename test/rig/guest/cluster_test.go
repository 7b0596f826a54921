package guest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
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
	// routeCA signed the named certificate.
	routeCA []byte
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
