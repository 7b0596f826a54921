package cluster

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"opdev.io/guestcluster/test/rig/guest/certs"
	"opdev.io/guestcluster/test/rig/pki"
)

const (
	day      = 24 * time.Hour
	longLife = 10 * 365 * day
)

// Validity is how old the certificates of the parked cluster are.
type Validity string

// The three states in which a bundle is met.
const (
	Expired Validity = "expired"
	Near    Validity = "near"
	Valid   Validity = "valid"
)

// period returns the bounds of a certificate that was made for 30 days.
func (v Validity) period(now time.Time) (from, to time.Time, err error) {
	switch v {
	case Expired:
		return now.Add(-60 * day), now.Add(-30 * day), nil
	case Near:
		return now.Add(-29 * day), now.Add(day), nil
	case Valid:
		return now.Add(-day), now.Add(29 * day), nil
	}
	return now, now, fmt.Errorf("certs=%s: choose valid, near or expired", v)
}

// MakeIdentities writes all keys and certificates of a new cluster and returns
// the authority that the installer's kubeconfig verifies.
func (r Root) MakeIdentities() (kubeconfig []byte, adminCA []byte, err error) {
	cas := map[string]certs.Pair{}
	for _, name := range []string{"kube-apiserver-lb-signer", "kube-control-plane-signer", csrSigner, aggregatorSigner, "admin-kubeconfig-signer"} {
		if cas[name], err = certs.NewCA(name); err != nil {
			return nil, nil, err
		}
	}
	admin, err := cas["admin-kubeconfig-signer"].Issue(longLived(certs.Leaf{User: "system:admin", Groups: []string{"system:masters"}}))
	if err != nil {
		return nil, nil, err
	}
	operators, err := cas["kube-control-plane-signer"].Issue(longLived(certs.Leaf{User: "system:kube-control-plane", Groups: []string{"system:masters"}}))
	if err != nil {
		return nil, nil, err
	}
	adminCA = cas["admin-kubeconfig-signer"].Cert
	base := append(append([]byte{}, cas["kube-control-plane-signer"].Cert...), cas[csrSigner].Cert...)
	err = errors.Join(
		operators.Write(r.Secret(controlPlane)),
		cas[csrSigner].Write(r.Signer(csrSigner)), cas[aggregatorSigner].Write(r.Signer(aggregatorSigner)),
		r.writeBundle(serverCA, cas["kube-apiserver-lb-signer"].Cert),
		r.writeBundle(operatorCA, base), r.writeBundle(clientCA, append(base, adminCA...)),
		r.writeBundle(aggregatorCA, cas[aggregatorSigner].Cert),
		r.makeServing(cas["kube-apiserver-lb-signer"]),
		os.MkdirAll(r.Secret(serviceAccounts), 0o755), pki.EnsureKeyPair(r.Secret(serviceAccounts), "service-account"),
		r.SetValidity(Expired))
	return kubeconfigFor("https://"+APIName+":6443", cas["kube-apiserver-lb-signer"].Cert, admin), adminCA, err
}

func (r Root) makeServing(ca certs.Pair) error {
	for name, names := range map[string][]string{
		external: {APIName}, internal: {APIIntName}, localhost: {"localhost"},
		serviceNetwork: {"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "openshift.default.svc"},
	} {
		leaf := longLived(certs.Leaf{User: names[0], Names: names})
		if name == localhost {
			leaf.IPs = []net.IP{net.IPv4(127, 0, 0, 1)}
		}
		pair, err := ca.Issue(leaf)
		if err != nil {
			return err
		}
		if err := pair.Write(r.Secret(name)); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// SetValidity makes the three certificates anew that a bundle's age spoils.
func (r Root) SetValidity(v Validity) error {
	from, to, err := v.period(time.Now())
	if err != nil {
		return err
	}
	csr, err := certs.Read(r.Signer(csrSigner))
	if err != nil {
		return fmt.Errorf("read the signer of kubelets: %w", err)
	}
	node := certs.Leaf{User: "system:node:" + NodeName, Groups: []string{"system:nodes"}, From: from, To: to}
	client, err := csr.Issue(node)
	if err != nil {
		return err
	}
	node.Names, node.IPs = []string{NodeName}, []net.IP{net.ParseIP(NodeIP)}
	server, err := csr.Issue(node)
	if err != nil {
		return err
	}
	return errors.Join(r.writeKubelet(r.KubeletClient(), client, from), r.writeKubelet(r.KubeletServer(), server, from),
		r.renewAggregator(from, to))
}

func (r Root) renewAggregator(from, to time.Time) error {
	signer, err := certs.Read(r.Signer(aggregatorSigner))
	if err != nil {
		return fmt.Errorf("read the signer of the aggregator: %w", err)
	}
	pair, err := signer.Issue(certs.Leaf{User: "system:openshift-aggregator", From: from, To: to})
	if err != nil {
		return err
	}
	return pair.Write(r.Secret(aggregatorClient))
}

// writeKubelet keeps certificate and key in one dated file behind a link.
func (r Root) writeKubelet(link string, pair certs.Pair, when time.Time) error {
	if err := os.MkdirAll(r.kubeletPKI(), 0o755); err != nil {
		return err
	}
	kind := filepath.Base(link)[:len("kubelet-client")]
	name := kind + "-" + when.Format("2006-01-02-15-04-05") + ".pem"
	data := append(append([]byte{}, pair.Cert...), pair.Key...)
	if err := certs.Replace(filepath.Join(r.kubeletPKI(), name), data, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_ = os.Remove(link + ".new")
	return errors.Join(os.Symlink("/var/lib/kubelet/pki/"+name, link+".new"), os.Rename(link+".new", link))
}

func (r Root) writeBundle(name string, data []byte) error {
	file := r.Bundle(name)
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), certs.Replace(file, data, 0o644))
}

func longLived(leaf certs.Leaf) certs.Leaf {
	leaf.From, leaf.To = time.Now().Add(-60*day), time.Now().Add(longLife)
	return leaf
}

const kubeconfig = `apiVersion: v1
kind: Config
clusters:
- name: crc
  cluster:
    certificate-authority-data: %s
    server: %s
contexts:
- name: admin
  context:
    cluster: crc
    user: admin
current-context: admin
preferences: {}
users:
- name: admin
  user:
    client-certificate-data: %s
    client-key-data: %s
`

func kubeconfigFor(server string, ca []byte, pair certs.Pair) []byte {
	encode := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, kubeconfig, encode(ca), server, encode(pair.Cert), encode(pair.Key))
}
