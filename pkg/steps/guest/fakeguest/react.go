package fakeguest

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/steps/fakeapi"
)

const (
	operators    = "/apis/config.openshift.io/v1/clusteroperators"
	bootstrapper = "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper"
	nodeUser     = "system:node:crc"
)

// reactions is how far the cluster came.
type reactions struct {
	grown    bool
	ready    bool
	served   map[string]string // names to Secrets
	rolling  int               // looks until the API server's operator is done
	settling int               // looks until the others are
	oldKey   bool
}

// react does what the kubelet and the operators would have done by now.
func (g *Guest) react() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.askForCertificates()
	g.rollOut()
	g.configureMachine()
}

// askForCertificates asks one after the other: twice for the client, then for
// the server. Strangers ask too.
func (g *Guest) askForCertificates() {
	if g.CSRNever || g.state.ready {
		return
	}
	g.ask("csr-foreign-user", certificatesv1.KubeAPIServerClientKubeletSignerName, "system:serviceaccount:default:stranger")
	g.ask("csr-foreign-signer", certificatesv1.KubeAPIServerClientSignerName, nodeUser)
	for i, request := range []struct{ signer, user string }{
		{certificatesv1.KubeAPIServerClientKubeletSignerName, bootstrapper},
		{certificatesv1.KubeAPIServerClientKubeletSignerName, nodeUser},
		{certificatesv1.KubeletServingSignerName, nodeUser},
	} {
		name := fmt.Sprintf("csr-%d", i+1)
		g.ask(name, request.signer, request.user)
		if !g.Approved(name) {
			return
		}
	}
	for _, file := range []string{clientFile, serverFile, aggregator} {
		cert, _ := g.client.Issue(g.t, pkix.Name{CommonName: nodeUser}, time.Now().Add(24*time.Hour))
		g.Files[file] = File{cert, "0600", "root"}
	}
	g.state.ready = true
	g.API.Merge(Node, "status: {conditions: [{type: Ready, status: 'True'}]}")
}

func (g *Guest) ask(name, signer, user string) {
	path := CSRs + name
	if g.API.Get(path, &fakeapi.Object{}) {
		return
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: nodeUser, Organization: []string{"system:nodes"}}}, newKey(g.t))
	if err != nil {
		g.t.Error(err)
	}
	g.API.Put(path, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       certificatesv1.CertificateSigningRequestSpec{Request: encode("CERTIFICATE REQUEST", der), SignerName: signer, Username: user},
	})
}

// Approved says whether a request was approved.
func (g *Guest) Approved(name string) bool {
	var csr certificatesv1.CertificateSigningRequest
	return g.API.Get(CSRs+name, &csr) && len(csr.Status.Conditions) == 1 && csr.Status.Conditions[0].Type == certificatesv1.CertificateApproved
}

// rollOut shows named certificates whose Secret exists.
func (g *Guest) rollOut() {
	var server struct {
		Spec struct {
			ServingCerts struct {
				NamedCertificates []struct {
					Names              []string
					ServingCertificate struct{ Name string }
				}
			}
		}
	}
	g.API.Get(APIServer, &server)
	for _, named := range server.Spec.ServingCerts.NamedCertificates {
		for _, name := range named.Names {
			if g.state.served[name] == "" && g.API.Get(Config+"secrets/"+named.ServingCertificate.Name, &fakeapi.Object{}) {
				if g.state.served == nil {
					g.state.served = map[string]string{}
				}
				g.state.served[name], g.state.rolling = named.ServingCertificate.Name, 2
			}
		}
	}
}

// configureMachine is the machine config operator, which waits for the leader
// that went away as long as its lease is there.
func (g *Guest) configureMachine() {
	if g.MCONever || !g.state.ready || g.API.Get(leaderMap, &fakeapi.Object{}) || g.API.Get(staleLease, &fakeapi.Object{}) {
		return
	}
	var secret corev1.Secret
	g.API.Get(PullSecrets, &secret)
	if raw := secret.Data[corev1.DockerConfigJsonKey]; strings.Contains(string(raw), "auths") {
		g.Files[nodePull] = File{raw, "0600", "root"}
	}
	var machine struct {
		Spec struct {
			Config struct{ Passwd json.RawMessage }
		}
	}
	var passwd struct {
		Users []struct {
			Keys []string `json:"sshAuthorizedKeys"`
		}
	}
	g.API.Get(MachineConfig, &machine)
	if json.Unmarshal(machine.Spec.Config.Passwd, &passwd) == nil && len(passwd.Users) == 1 {
		g.Files[ignitionKeys] = File{[]byte(strings.Join(passwd.Users[0].Keys, "\n") + "\n"), "0600", "core"}
	}
}

// look is one look at the operators; each brings them nearer to their goal.
func (g *Guest) look() []any {
	g.mu.Lock()
	defer g.mu.Unlock()
	rolling := g.state.rolling > 0
	g.state.rolling = max(0, g.state.rolling-1)
	if g.state.ready && !rolling {
		g.state.settling++
	}
	if g.OldKeyReturns && g.state.settling > 2 && !g.state.oldKey {
		g.state.oldKey = true
		g.Files[authorizedKeys] = File{append(g.Files[authorizedKeys].Content, g.publicKey()+"\n"...), "0600", "core"}
	}
	return []any{
		operator("kube-apiserver", true, rolling, false),
		operator("authentication", !g.OperatorsNever, g.state.settling < 3, g.OperatorsNever),
		operator("console", g.state.ready, false, false),
	}
}

func operator(name string, available, progressing, degraded bool) fakeapi.Object {
	condition := func(kind string, on bool) fakeapi.Object {
		return fakeapi.Object{"type": kind, "status": map[bool]string{true: "True", false: "False"}[on], "reason": "Fake"}
	}
	return fakeapi.Object{"metadata": fakeapi.Object{"name": name}, "status": fakeapi.Object{"conditions": []any{
		condition("Available", available), condition("Progressing", progressing), condition("Degraded", degraded), condition("Upgradeable", false),
	}}}
}

// StartKubelet starts the API as a step would.
func (g *Guest) StartKubelet() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.units["kubelet"] = "enabled active"
}
