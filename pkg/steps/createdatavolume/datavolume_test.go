package createdatavolume

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files")

func TestDataVolumes(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"clone": func(*Options) {},
		"import": func(o *Options) {
			o.SourceVolume, o.SourceURL, o.StorageClass = "", "https://files.example.com/crc.qcow2", "fast"
		},
		"registry": func(o *Options) { o.SourceVolume, o.SourceURL = "", "docker://quay.io/example/crc-disk:4.19.3" },
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
