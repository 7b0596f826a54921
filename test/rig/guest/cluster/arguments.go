package cluster

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Ports are where the control plane listens; the guest's are DefaultPorts.
type Ports struct{ API, Etcd, EtcdPeer int }

// DefaultPorts are the usual ones.
var DefaultPorts = Ports{API: 6443, Etcd: 2379, EtcdPeer: 2380}

// EtcdArgs starts etcd without fsync: a guest's death leaves its page cache.
// The peer's name never changes, so that data made elsewhere stays valid.
func (r Root) EtcdArgs(p Ports) []string {
	client, peer := fmt.Sprintf("http://127.0.0.1:%d", p.Etcd), fmt.Sprintf("http://127.0.0.1:%d", DefaultPorts.EtcdPeer)
	return []string{
		"etcd", "--name=crc", "--data-dir=" + r.Path("var/lib/etcd"), "--unsafe-no-fsync",
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		fmt.Sprintf("--listen-peer-urls=http://127.0.0.1:%d", p.EtcdPeer), "--initial-advertise-peer-urls=" + peer, "--initial-cluster=crc=" + peer,
		"--log-level=warn", "--heartbeat-interval=50", "--election-timeout=250",
	}
}

// APIServerArgs starts kube-apiserver; named are certificates by server name.
func (r Root) APIServerArgs(p Ports, bind string, named []NamedCertificate) []string {
	pair := func(name string) (cert, key string) {
		return filepath.Join(r.Secret(name), "tls.crt"), filepath.Join(r.Secret(name), "tls.key")
	}
	cert, key := pair(localhost)
	proxyCert, proxyKey := pair(aggregatorClient)
	args := []string{
		"kube-apiserver",
		fmt.Sprintf("--etcd-servers=http://127.0.0.1:%d", p.Etcd),
		"--bind-address=" + bind, fmt.Sprintf("--secure-port=%d", p.API),
		"--advertise-address=" + NodeIP, "--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=" + ServiceRange, "--allow-privileged", "--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=OwnerReferencesPermissionEnforcement,NodeRestriction",
		"--enable-priority-and-fairness=false", "--profiling=false",
		"--client-ca-file=" + r.Bundle(clientCA),
		"--tls-cert-file=" + cert, "--tls-private-key-file=" + key,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + filepath.Join(r.Secret(serviceAccounts), "service-account.pub"),
		"--service-account-signing-key-file=" + filepath.Join(r.Secret(serviceAccounts), "service-account.key"),
		"--requestheader-client-ca-file=" + r.Bundle(aggregatorCA),
		"--requestheader-allowed-names=system:openshift-aggregator",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + proxyCert, "--proxy-client-key-file=" + proxyKey,
	}
	for _, name := range []string{external, internal, serviceNetwork} {
		cert, key := pair(name)
		args = append(args, "--tls-sni-cert-key="+cert+","+key)
	}
	for i, n := range named {
		cert, key := pair(userServing(i))
		value := cert + "," + key
		if len(n.Names) > 0 {
			value += ":" + strings.Join(n.Names, ",")
		}
		args = append(args, "--tls-sni-cert-key="+value)
	}
	return args
}

// controllers are those whose effects a user of the guest can see.
var controllers = []string{
	"serviceaccount-controller", "serviceaccount-token-controller", "namespace-controller", "garbage-collector-controller",
	"root-ca-certificate-publisher-controller", "certificatesigningrequest-signing-controller", "clusterrole-aggregation-controller",
}

// ControllerManagerArgs starts kube-controller-manager. Nothing approves
// requests for certificates; approved ones are signed.
func (r Root) ControllerManagerArgs() []string {
	signer := r.Signer(csrSigner)
	config := r.Path("etc/kubernetes/control-plane.kubeconfig")
	return []string{
		"kube-controller-manager", "--kubeconfig=" + config, "--leader-elect=false", "--secure-port=0",
		"--controllers=" + strings.Join(controllers, ","), "--use-service-account-credentials=false",
		"--root-ca-file=" + r.Bundle(serverCA),
		"--service-account-private-key-file=" + filepath.Join(r.Secret(serviceAccounts), "service-account.key"),
		"--cluster-signing-cert-file=" + filepath.Join(signer, "tls.crt"),
		"--cluster-signing-key-file=" + filepath.Join(signer, "tls.key"), "--cluster-signing-duration=720h",
		"--kube-api-qps=100", "--kube-api-burst=200", "--profiling=false",
	}
}

func userServing(i int) string { return fmt.Sprintf("user-serving-cert-%03d", i) }
