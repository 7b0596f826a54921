package plan

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

func hashed(t *testing.T, spec v1alpha1.ClusterPoolSpec) string {
	t.Helper()
	hash, err := TemplateHash("2f1e6d3c-0000-4000-8000-000000000001", spec)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func crcSpec() v1alpha1.ClusterPoolSpec {
	memory, volume := resource.MustParse("14Gi"), resource.MustParse("80Gi")
	return v1alpha1.ClusterPoolSpec{Type: v1alpha1.TypeCRC, MaxSize: 3, Template: v1alpha1.ClusterTemplate{
		CRCVersion: "4.19.3", CRCArch: "amd64", Memory: &memory, Cores: 4, RootVolumeSize: &volume,
		VMNodeSelector: map[string]v1alpha1.LabelValue{"b": "2", "a": "1"}, PullSecretRef: &v1alpha1.LocalReference{Name: "pull-secret"},
	}}
}

func customSpec() v1alpha1.ClusterPoolSpec {
	return v1alpha1.ClusterPoolSpec{Type: v1alpha1.TypeCustom, MaxSize: 3,
		Provisioning: &v1alpha1.Provisioning{Pipeline: "provision-demo"},
		Template:     v1alpha1.ClusterTemplate{Params: map[string]v1alpha1.ParamValue{"image": "example.com/guest"}}}
}

// TestTemplateHashIsPinned fails when a change of the code would make every
// spare of every pool stale. Do not update the values: keep the hash.
func TestTemplateHashIsPinned(t *testing.T) {
	tests := map[string]struct {
		spec v1alpha1.ClusterPoolSpec
		want string
	}{
		"a crc pool":    {spec: crcSpec(), want: "245aa272469209fb3db4ad72b1d3c601"},
		"a custom pool": {spec: customSpec(), want: "3d63af20c6a2cec9ef64461addf51157"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := hashed(t, tt.spec); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestTemplateHashSeesWhatInstancesAreMadeFrom(t *testing.T) {
	type spec = v1alpha1.ClusterPoolSpec
	tests := map[string]struct {
		change func(*spec)
		same   bool
	}{
		"the bundle's version":      {change: func(s *spec) { s.Template.CRCVersion = "4.19.4" }},
		"the memory":                {change: func(s *spec) { q := resource.MustParse("16Gi"); s.Template.Memory = &q }},
		"another Pipeline":          {change: func(s *spec) { s.Provisioning = &v1alpha1.Provisioning{Pipeline: "mine"} }},
		"a param":                   {change: func(s *spec) { s.Template.Params = map[string]v1alpha1.ParamValue{"a": "b"} }},
		"the same Pipeline by name": {change: func(s *spec) { s.Provisioning = &v1alpha1.Provisioning{Pipeline: "provision-crc"} }, same: true},
		"the breaker's limit":       {change: func(s *spec) { s.Provisioning = &v1alpha1.Provisioning{RetryLimit: 9} }, same: true},
		"the sizes":                 {change: func(s *spec) { s.MinSize, s.WarmSpares, s.MaxSize = 1, 2, 9 }, same: true},
		"an empty map":              {change: func(s *spec) { s.Template.Params = map[string]v1alpha1.ParamValue{} }, same: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			spec := crcSpec()
			tt.change(&spec)
			if same := hashed(t, spec) == hashed(t, crcSpec()); same != tt.same {
				t.Errorf("hash stays the same: %t, want %t", same, tt.same)
			}
		})
	}
}

func TestTemplateHashIsKeyedByPool(t *testing.T) {
	other, err := TemplateHash("another", crcSpec())
	if err != nil || other == hashed(t, crcSpec()) {
		t.Errorf("two pools share the hash %s (%v)", other, err)
	}
}

// Every field of the template must vanish when it is zero, or adding an
// optional field in an upgrade would make all spares stale.
func TestTemplateLeavesZeroFieldsOut(t *testing.T) {
	text, err := json.Marshal(v1alpha1.ClusterTemplate{})
	if err != nil || string(text) != "{}" {
		t.Errorf("the zero template is %s (%v)", text, err)
	}
	template := reflect.TypeFor[v1alpha1.ClusterTemplate]()
	for n := range template.NumField() {
		field := template.Field(n)
		if !strings.Contains(field.Tag.Get("json"), ",omitempty") || field.Type.Kind() == reflect.Struct {
			t.Errorf("field %s is written when it is zero", field.Name)
		}
	}
}

func TestIsStale(t *testing.T) {
	i := &v1alpha1.ClusterInstance{}
	if !IsStale(i, "h") {
		t.Error("an instance without a hash is current")
	}
	i.Annotations = map[string]string{guestcluster.TemplateHashAnnotation: "h"}
	if IsStale(i, "h") || !IsStale(i, "other") {
		t.Error("the annotation does not decide")
	}
}
