package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"opdev.io/guestcluster/test/rig/confine"
)

func TestWriteFillsEveryFile(t *testing.T) {
	state := confine.State(t.TempDir())
	if err := Write(Values{State: state, NodeIP: "192.0.2.1", Registry: "192.0.2.1:5000", IngressDomain: "apps.test"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"containerd.toml", "kubelet.yaml", "proxy.yaml", "Corefile", "cni/pods.conflist", "registry/192.0.2.1:5000/hosts.toml"} {
		text, err := os.ReadFile(filepath.Join(string(state), "config", name))
		if err != nil {
			t.Error(err)
		}
		if strings.Contains(string(text), "<no value>") {
			t.Errorf("%s has a hole:\n%s", name, text)
		}
	}
}
