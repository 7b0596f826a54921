package fixupguest

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"
	corev1 "k8s.io/api/core/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/steps/fakeapi"
	"opdev.io/guestcluster/pkg/steps/guest"
	"opdev.io/guestcluster/pkg/steps/guest/fakeguest"
	"opdev.io/guestcluster/pkg/steps/step"
)

func (b *bench) identity(key string) string {
	b.Helper()
	raw, err := os.ReadFile(filepath.Join(b.dir, key))
	if err != nil {
		b.Fatal(err)
	}
	return string(raw)
}

// converged checks everything that the step promises of the guest.
func (b *bench) converged() {
	b.Helper()
	g := b.guest
	id, err := readIdentity(b.dir)
	if err != nil {
		b.Fatal(err)
	}
	if g.Accepts(g.BootKey) || !g.Accepts([]byte(b.identity(guestcluster.SSHPrivateKeyKey))) {
		b.Error("the SSH keys are not swapped")
	}
	if got := g.Files[authorizedKeys]; string(got.Content) != string(id.authorized) || got.Mode != "0600" || got.Owner != "core" {
		b.Errorf("authorized_keys: %q, mode %s, owner %s", got.Content, got.Mode, got.Owner)
	}
	if got := g.Files[guest.Kubeconfig]; got.Mode != "0600" || got.Owner != "root" || !strings.Contains(string(got.Content), base64.StdEncoding.EncodeToString(id.adminCert)) {
		b.Errorf("the guest's kubeconfig: mode %s, owner %s", got.Mode, got.Owner)
	}
	if got := g.File(resolvConf); strings.Count(got, "nameserver "+fakeguest.Address) != 1 || strings.Count(got, "nameserver "+fakeguest.Upstream) != 1 ||
		strings.Index(got, fakeguest.Address) > strings.Index(got, fakeguest.Upstream) {
		b.Errorf("resolv.conf: %q", got)
	}
	if got := g.File(crcEnv); got != "CRC_SELF_SUFFICIENT=0\n" {
		b.Errorf("crc-env: %q", got)
	}
	b.objects(id)
}

func (b *bench) objects(id *identity) {
	b.Helper()
	var secret corev1.Secret
	b.guest.API.Get(fakeguest.PullSecrets, &secret)
	if got := string(secret.Data[".dockerconfigjson"]); got != fakeguest.PullSecret {
		b.Errorf("pull secret: %q", got)
	}
	secret = corev1.Secret{}
	b.guest.API.Get(fakeguest.Passwords, &secret) // base64, or it would not decode
	rows := strings.Split(strings.TrimSpace(string(secret.Data["htpasswd"])), "\n")
	if len(rows) != 2 || rows[0] != "tester:$apr1$kept$as-it-is" {
		b.Fatalf("htpasswd: %q", rows)
	}
	user, hash, _ := strings.Cut(rows[1], ":")
	if user != "kubeadmin" || bcrypt.CompareHashAndPassword([]byte(hash), []byte(fakeguest.KubeadminPassword)) != nil {
		b.Errorf("the password in %q does not verify", rows[1])
	}
	var ca corev1.ConfigMap
	if b.guest.API.Get(fakeguest.AdminCA, &ca); ca.Data["ca-bundle.crt"] != string(id.adminCA) {
		b.Error("the admin CA is not the instance's alone")
	}
	if got := b.text(fakeguest.APIServer); !strings.Contains(got, `"other.example.com"`) || !strings.Contains(got, `"`+host+`"`) || strings.Count(got, servingSecret) != 1 {
		b.Errorf("named certificates: %s", got)
	}
	if got := b.text(fakeguest.MachineConfig); !strings.Contains(got, strings.TrimSpace(string(id.authorized))) || !strings.Contains(got, `"3.2.0"`) {
		b.Errorf("machine config: %s", got)
	}
	if len(b.clusterID()) != 36 {
		b.Errorf("cluster ID %q", b.clusterID())
	}
}

func (b *bench) text(path string) string {
	object := fakeapi.Object{}
	b.guest.API.Get(path, &object)
	raw, _ := json.Marshal(object)
	return string(raw)
}

func (b *bench) clusterID() string {
	var version struct{ Spec struct{ ClusterID string } }
	b.guest.API.Get(fakeguest.Version, &version)
	return version.Spec.ClusterID
}

func TestAParkedDiskBecomesAClusterOfItsOwn(t *testing.T) {
	b := newBench(t)
	b.run(0)
	b.converged()
	said := b.guest.Said()
	for _, want := range []string{"systemctl enable kubelet", "systemctl start kubelet", "passwd --lock core", "xfs_growfs /sysroot"} {
		if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("the guest was never told %q", want)
		}
	}
	for name, want := range map[string]bool{"csr-1": true, "csr-2": true, "csr-3": true, "csr-foreign-user": false, "csr-foreign-signer": false} {
		if b.guest.Approved(name) != want {
			t.Errorf("%s: approved is %t", name, !want)
		}
	}
	var secret corev1.Secret
	b.api.Get(secretPath, &secret)
	if string(secret.Data[guestcluster.VMIUIDKey]) != "vmi-1" || !strings.HasPrefix(string(secret.Data[guestcluster.SSHHostKeyKey]), "ecdsa-sha2-nistp256 ") {
		t.Errorf("pinned %q for %q", secret.Data[guestcluster.SSHHostKeyKey], secret.Data[guestcluster.VMIUIDKey])
	}
	b.guest.RestartNetworkManager()
	b.converged()
}

// The bundle's kubeconfig dies with the CA: no write may come after it.
func TestTheAdminCAIsTheLastChange(t *testing.T) {
	b := newBench(t)
	b.run(0)
	var writes []string
	for _, line := range b.guest.Said() {
		if verb, path, ok := strings.Cut(line, " /api"); ok && !strings.Contains(path, "/approval") {
			writes = append(writes, verb+" /api"+path)
		}
	}
	if last := writes[len(writes)-1]; last != "PATCH "+fakeguest.AdminCA {
		t.Errorf("the last write is %s", last)
	}
	named := slices.Index(writes, "PATCH "+fakeguest.APIServer)
	for _, before := range []string{"DELETE /api/v1/namespaces/openshift-machine-config-operator/configmaps/machine-config-controller", "PATCH " + fakeguest.PullSecrets,
		"PATCH " + fakeguest.MachineConfig, "PATCH " + fakeguest.Passwords, "PATCH " + fakeguest.Version, "POST /api/v1/namespaces/openshift-config/secrets"} {
		if i := slices.Index(writes, before); i < 0 || i > named {
			t.Errorf("%s is write %d of %v", before, i, writes)
		}
	}
}

func TestASecondRunChangesNothing(t *testing.T) {
	b := newBench(t)
	b.run(0)
	before := b.clusterID()
	b.guest.Forget()
	b.run(0)
	b.converged()
	if b.clusterID() != before {
		t.Error("the cluster ID changed")
	}
	for _, line := range b.guest.Said() {
		if strings.HasPrefix(line, "PATCH") || strings.HasPrefix(line, "POST") || strings.Contains(line, " write ") || strings.Contains(line, "restart") {
			t.Errorf("the second run did %q", line)
		}
	}
}

func TestAKilledStepGoesOn(t *testing.T) {
	var cuts []string
	for _, p := range phases {
		cuts = append(cuts, p.name+": done")
	}
	for _, cut := range cuts {
		t.Run(cut, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			if err := b.until(cut); err != nil && step.ExitCode(err) != step.ExitInterrupted {
				t.Fatalf("killed: %v", err)
			}
			b.run(0)
			b.converged()
		})
	}
}

// Between any two commands the pod may die too.
func TestAStepThatIsKilledAtAnyCommandGoesOn(t *testing.T) {
	counted := newBench(t)
	counted.run(0)
	total := len(counted.guest.Said())
	for n := 1; n < total; n += 11 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.killAt(n)
			b.run(0)
			b.converged()
		})
	}
}

func TestAConnectionThatDropsIsMadeAgain(t *testing.T) {
	b := newBench(t)
	b.guest.DropAfter = 4
	b.run(0)
	b.converged()
}

func TestABundleWithoutOVSKeepsItsResolver(t *testing.T) {
	b := newBench(t)
	b.guest.NoOVS = true
	b.run(0)
	b.converged()
	b.guest.RestartNetworkManager()
	b.converged()
}

func TestNameServersOfBothFamiliesAreKept(t *testing.T) {
	for name, none := range map[string]bool{"a bridge with IPv6": false, "a bridge without": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.guest.NoIPv6 = none
			b.guest.SetFile(resolvConf, "nameserver 2001:db8::53\nnameserver "+fakeguest.Upstream+"\n")
			b.run(0)
			b.converged()
			if got := b.guest.File(resolvConf); strings.Count(got, "nameserver 2001:db8::53\n") != 1 || !strings.Contains(got, "search crc.testing") {
				t.Errorf("resolv.conf: %q", got)
			}
			said := strings.Join(b.guest.Said(), "\n")
			if !strings.Contains(said, "ipv4.dns "+fakeguest.Address+","+fakeguest.Upstream+" ") || !strings.Contains(said, "ipv6.dns 2001:db8::53") || strings.Contains(said, "tee "+resolvConf) {
				t.Errorf("NetworkManager was not told by family:\n%s", said)
			}
			if told := strings.Contains(b.out.String(), "takes no IPv6 name servers"); told != none {
				t.Errorf("told of IPv6: %v", told)
			}
		})
	}
}

func TestAKeyThatComesBackIsRemovedAgain(t *testing.T) {
	b := newBench(t)
	b.guest.OldKeyReturns = true
	b.run(0)
	b.converged()
	if !strings.Contains(b.out.String(), "came back") {
		t.Error("nobody noticed")
	}
}

func TestANewMachineHasANewPin(t *testing.T) {
	b := newBench(t)
	b.run(0)
	b.guest.UID = "vmi-2"
	b.guest.NewHostKey()
	b.run(0)
	var secret corev1.Secret
	if b.api.Get(secretPath, &secret); string(secret.Data[guestcluster.VMIUIDKey]) != "vmi-2" {
		t.Errorf("pinned for %q", secret.Data[guestcluster.VMIUIDKey])
	}
}
