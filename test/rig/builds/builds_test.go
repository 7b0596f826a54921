package builds

import (
	"os"
	"regexp"
	"testing"
)

func TestKubeVersionIsTheModules(t *testing.T) {
	text, err := os.ReadFile("../third_party/kube/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`k8s\.io/kubernetes (v\S+)`).FindSubmatch(text)
	if match == nil || string(match[1]) != KubeVersion {
		t.Errorf("third_party/kube/go.mod has %q, KubeVersion is %q", match, KubeVersion)
	}
}

func TestKeyFollowsFlagsAndFiles(t *testing.T) {
	builder, err := New()
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	changed := Etcd
	changed.Flags = []string{"-ldflags=-w"}
	for _, p := range []Program{Etcd, changed, Kube} {
		key, err := builder.key(p)
		if err != nil {
			t.Fatal(err)
		}
		keys[key] = true
	}
	if len(keys) != 3 {
		t.Errorf("got %d different keys for three builds", len(keys))
	}
}
