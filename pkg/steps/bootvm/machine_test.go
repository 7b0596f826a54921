package bootvm

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMachines(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"amd64": func(o *Options) { o.NodeSelector = "zone=a,disk=fast" },
		"arm64": func(o *Options) { o.Arch, o.Memory, o.Cores = "arm64", "10752Mi", 6 },
	} {
		t.Run(name, func(t *testing.T) {
			o := options()
			change(&o)
			if err := o.validate(); err != nil {
				t.Fatal(err)
			}
			got, err := yaml.Marshal(o.Build())
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", name+".yaml")
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
