package controlplane

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
)

// ServiceRange is the range of Service addresses.
const ServiceRange = "10.96.0.0/16"

// Plan is where a control plane keeps its files and listens.
type Plan struct {
	Dir      string
	Address  string
	API      int
	Etcd     int
	EtcdPeer int
	// Node is true when a kubelet belongs to the control plane.
	Node bool
}

// IdentityDir holds the certificates.
func (p Plan) IdentityDir() string { return filepath.Join(p.Dir, "pki") }

// URL is the address of the API server.
func (p Plan) URL() string {
	return "https://" + net.JoinHostPort(p.Address, strconv.Itoa(p.API))
}

// EtcdArgs starts etcd without fsync: the data need not outlive the machine.
func (p Plan) EtcdArgs() []string {
	client := fmt.Sprintf("http://127.0.0.1:%d", p.Etcd)
	peer := fmt.Sprintf("http://127.0.0.1:%d", p.EtcdPeer)
	return []string{
		"etcd", "--name=rig", "--data-dir=" + filepath.Join(p.Dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=rig=" + peer,
		"--quota-backend-bytes=2147483648", "--auto-compaction-retention=10m", "--log-level=warn",
	}
}

// APIServerArgs starts kube-apiserver. OwnerReferencesPermissionEnforcement is
// on because OpenShift has it on and it refuses writes that pass elsewhere.
func (p Plan) APIServerArgs() []string {
	args := []string{
		"kube-apiserver",
		"--etcd-servers=" + fmt.Sprintf("http://127.0.0.1:%d", p.Etcd),
		"--bind-address=" + p.Address, "--secure-port=" + strconv.Itoa(p.API),
		"--service-cluster-ip-range=" + ServiceRange,
		"--authorization-mode=Node,RBAC", "--allow-privileged",
		"--enable-admission-plugins=OwnerReferencesPermissionEnforcement,NodeRestriction",
		"--client-ca-file=" + p.pki("ca.crt"),
		"--tls-cert-file=" + p.pki("apiserver.crt"), "--tls-private-key-file=" + p.pki("apiserver.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + p.pki("sa.pub"), "--service-account-signing-key-file=" + p.pki("sa.key"),
		"--requestheader-client-ca-file=" + p.pki("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + p.pki("front-proxy-client.crt"),
		"--proxy-client-key-file=" + p.pki("front-proxy-client.key"),
	}
	if !p.Node {
		return append(args, "--endpoint-reconciler-type=none", "--advertise-address="+p.Address)
	}
	return append(args,
		"--admission-control-config-file="+p.admissionFile(),
		"--advertise-address="+p.Address, "--enable-aggregator-routing=true",
		"--kubelet-preferred-address-types=InternalIP",
		"--kubelet-client-certificate="+p.pki("kubelet-client.crt"), "--kubelet-client-key="+p.pki("kubelet-client.key"))
}

// ControllerManagerArgs starts kube-controller-manager with all its default
// controllers, each with its own service account as in a real cluster.
func (p Plan) ControllerManagerArgs(kubeconfig string) []string {
	return []string{
		"kube-controller-manager", "--kubeconfig=" + kubeconfig, "--leader-elect=false",
		"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1", "--use-service-account-credentials",
		"--root-ca-file=" + p.pki("ca.crt"), "--service-account-private-key-file=" + p.pki("sa.key"),
		"--cluster-signing-cert-file=" + p.pki("ca.crt"), "--cluster-signing-key-file=" + p.pki("ca.key"),
		"--service-cluster-ip-range=" + ServiceRange,
	}
}

// SchedulerArgs starts kube-scheduler.
func (p Plan) SchedulerArgs(kubeconfig string) []string {
	return []string{
		"kube-scheduler", "--kubeconfig=" + kubeconfig, "--leader-elect=false", "--bind-address=127.0.0.1",
		"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
	}
}

func (p Plan) pki(name string) string { return filepath.Join(p.IdentityDir(), name) }
