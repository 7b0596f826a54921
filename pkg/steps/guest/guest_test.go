package guest_test

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/steps/fakeapi"
	"opdev.io/guestcluster/pkg/steps/guest"
	"opdev.io/guestcluster/pkg/steps/guest/fakeguest"
	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/step"
)

const secretPath = "/api/v1/namespaces/clusters/secrets/demo-kubeconfig"

// bench is a fake guest and a dialer that knows its key and a stranger's.
type bench struct {
	*testing.T
	guest  *fakeguest.Guest
	api    *fakeapi.Server
	dialer *guest.Dialer
	link   *guest.Link
}

func key(t *testing.T, name string, raw []byte) guest.Key {
	t.Helper()
	signer, err := ssh.ParsePrivateKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	return guest.Key{Name: name, Signer: signer}
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, guest: fakeguest.Start(t), api: fakeapi.Start(t)}
	b.api.Put(secretPath, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "demo-kubeconfig", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "guestcluster.opdev.io/v1alpha1", Kind: "ClusterInstance", Name: "demo", UID: "u"},
	}}})
	secrets, err := kube.NewSecrets(b.api.Config(), "clusters")
	if err != nil {
		t.Fatal(err)
	}
	b.dialer = &guest.Dialer{
		Locator: b.guest, Dial: b.guest.Dial, Handshake: 2 * time.Second,
		Keys: []guest.Key{key(t, "the stranger's", fakeguest.NewSSHKey(t)), key(t, "the bundle's", b.guest.BootKey)},
		Pins: &guest.Pins{Secrets: secrets, Secret: "demo-kubeconfig", Instance: "demo"},
	}
	b.link = guest.NewLink(b.dialer)
	t.Cleanup(b.link.Close)
	return b
}

func TestEachKeyHasAConnectionOfItsOwn(t *testing.T) {
	b := newBench(t) // its server hangs up after one key
	if _, err := b.link.Run(t.Context(), guest.Command{Doing: "try", Line: "exit 0"}); err != nil {
		t.Error(err)
	}
	for i, want := range []bool{false, true} {
		if got, err := b.dialer.Accepts(t.Context(), b.dialer.Keys[i]); got != want || err != nil {
			t.Errorf("%s: %t, %v", b.dialer.Keys[i].Name, got, err)
		}
	}
}

func TestTheHostKeyIsPinnedBeforeTheFirstCommand(t *testing.T) {
	b := newBench(t)
	b.guest.OnCommand = func(string) {
		var secret corev1.Secret
		if b.api.Get(secretPath, &secret); len(secret.Data[guestcluster.SSHHostKeyKey]) == 0 || string(secret.Data[guestcluster.VMIUIDKey]) != "vmi-1" {
			t.Error("not pinned")
		}
	}
	if _, err := b.link.Run(t.Context(), guest.Command{Doing: "try", Line: "exit 0"}); err != nil {
		t.Error(err)
	}
}

// Two steps may meet a guest at one time: the second compares with the first.
func TestAPinOfAnotherWriterIsKept(t *testing.T) {
	b := newBench(t)
	first, second := b.dialer.Keys[0].Signer.PublicKey(), b.dialer.Keys[1].Signer.PublicKey()
	if err := b.dialer.Pins.Pin(t.Context(), "vmi-1", first); err != nil {
		t.Fatal(err)
	}
	if err := b.dialer.Pins.Pin(t.Context(), "vmi-1", first); err != nil {
		t.Errorf("the same key: %v", err)
	}
	if err := b.dialer.Pins.Pin(t.Context(), "vmi-1", second); step.ExitCode(err) != step.ExitInfra || !strings.Contains(err.Error(), "another SSH host key") {
		t.Errorf("another key: %v", err)
	}
	if _, err := b.link.Run(t.Context(), guest.Command{Doing: "try", Line: "exit 0"}); step.ExitCode(err) != step.ExitInfra || len(b.guest.Said()) > 0 {
		t.Errorf("%v, said %q", err, b.guest.Said())
	}
}

func TestFilesAreWrittenWholeOrNotAtAll(t *testing.T) {
	b := newBench(t)
	if _, err := b.link.Read(t.Context(), guest.Root, "/etc/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	content := []byte("a line\nand half of")
	if err := b.link.Write(t.Context(), guest.Root, "/etc/some", 0o640, content); err != nil {
		t.Fatal(err)
	}
	if got := b.guest.Files["/etc/some"]; string(got.Content) != string(content) || got.Mode != "0640" || got.Owner != "root" {
		t.Errorf("%+v", got)
	}
	for _, path := range []string{"relative", "/with space", "/with'quote", "/with$(id)", ""} {
		if _, err := b.link.Read(t.Context(), guest.Root, path); err == nil {
			t.Errorf("read %q", path)
		}
		if err := b.link.Write(t.Context(), guest.Root, path, 0o600, nil); err == nil {
			t.Errorf("wrote %q", path)
		}
	}
	if said := b.guest.Said(); slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, "half of") }) {
		t.Errorf("content stands on a command line: %q", said)
	}
}

func TestACommandEndsWithItsContext(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	released := make(chan struct{})
	b.guest.OnCommand = func(string) { cancel(); <-released }
	_, err := b.link.Run(ctx, guest.Command{Doing: "hang", Line: "hostname"})
	close(released)
	if err == nil || step.Final(err) {
		t.Errorf("%v", err)
	}
	b.guest.OnCommand = nil
	if _, err := b.link.Run(t.Context(), guest.Command{Doing: "go on", Line: "hostname"}); err != nil {
		t.Errorf("no new connection: %v", err)
	}
}

func TestVMI(t *testing.T) {
	api := fakeapi.Start(t)
	locator, err := guest.NewVMI(api.Config(), "clusters", "gc-demo")
	if err != nil {
		t.Fatal(err)
	}
	const path = "/apis/kubevirt.io/v1/namespaces/clusters/virtualmachineinstances/gc-demo"
	for _, row := range []struct{ name, patch, text string }{
		{"none", "", "does not exist"},
		{"no address", "{status: {phase: Scheduling}}", "Scheduling"},
		{"no valid address", "{status: {phase: Running, interfaces: [{ipAddress: 'x; rm'}]}}", "no address"},
		{"running", "{status: {phase: Running, interfaces: [{ipAddress: 10.1.2.3}]}}", ""},
	} {
		if row.patch != "" {
			api.Put(path, fakeapi.Object{})
			api.Merge(path, row.patch)
		}
		machine, err := locator.Locate(t.Context())
		if row.text == "" && (err != nil || machine.Address != "10.1.2.3" || machine.UID == "") || row.text != "" && (err == nil || step.Final(err) || !strings.Contains(err.Error(), row.text)) {
			t.Errorf("%s: %+v, %v", row.name, machine, err)
		}
	}
}
