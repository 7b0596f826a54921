package v1alpha1

import (
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

func instance(namespace, name string, uid types.UID) *ClusterInstance {
	return &ClusterInstance{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid}}
}

func TestDerivedNamesAreDNSLabels(t *testing.T) {
	tests := map[string]string{
		"a pool's instance":                     "crc-pool-0",
		"the shortest name":                     "a",
		"a name that starts with a digit":       "4.19-0",
		"a standalone instance with dots":       "my.cluster.example",
		"a dash where the name is cut":          strings.Repeat("a", 29) + "-bcd",
		"a dot where the name is cut":           strings.Repeat("a", 29) + ".bcd",
		"dashes up to where the name is cut":    "a" + strings.Repeat("-", 40) + "b",
		"the longest name of a pool's instance": strings.Repeat("p", 40) + "-499",
		"the longest name of all":               strings.Repeat(strings.Repeat("x", 50)+".", 4) + strings.Repeat("y", 49),
	}
	for sentence, name := range tests {
		t.Run(sentence, func(t *testing.T) {
			i := instance("clusters", name, "5d2c0a1e-0000-4000-8000-000000000001")
			for what, got := range map[string]string{
				"derived name": i.DerivedName(), "run": i.RunName(2), "last run": i.RunName(1 << 20),
				"identity": i.IdentitySecretName(), "kubeconfig": i.KubeconfigSecretName(),
			} {
				problems := validation.IsDNS1123Label(got)
				if strings.HasSuffix(what, "identity") || strings.HasSuffix(what, "kubeconfig") {
					problems = validation.IsDNS1123Subdomain(got)
				}
				if len(problems) > 0 || len(got) > 63 {
					t.Errorf("%s %q (%d characters): %v", what, got, len(got), problems)
				}
			}
		})
	}
}

var hostShape = regexp.MustCompile(`^api-([a-z0-9](?:[-a-z0-9]*[a-z0-9])?)-[0-9a-f]{16}\.(.+)$`)

func TestHostnames(t *testing.T) {
	long := strings.Repeat(strings.Repeat("d", 49)+".", 5)
	tests := map[string]struct{ name, domain, part string }{
		"a pool's instance":                    {"crc-pool-0", "apps.example.com", "crc-pool-0"},
		"a name that starts with a digit":      {"4.19-0", "apps.example.com", "4-19-0"},
		"the longest name of a pool's member":  {strings.Repeat("p", 40) + "-499", "apps.example.com", strings.Repeat("p", 40) + "-4"},
		"a dash where the name is cut":         {strings.Repeat("a", 41) + "-bcd", "apps.example.com", strings.Repeat("a", 41)},
		"a domain that leaves room for little": {"crc-pool-0", long[:225], "crc-po"},
		"a domain that leaves room for none":   {"crc-pool-0", long[:240], "c"},
	}
	for sentence, tt := range tests {
		t.Run(sentence, func(t *testing.T) {
			got := instance("clusters", tt.name, "uid-1").Hostname(tt.domain)
			shape := hostShape.FindStringSubmatch(got)
			if shape == nil || shape[1] != tt.part || shape[2] != tt.domain {
				t.Fatalf("host is %q, want api-%s-<16 hex>.%s", got, tt.part, tt.domain)
			}
			if label, _, _ := strings.Cut(got, "."); len(label) > 63 {
				t.Errorf("the first label has %d characters", len(label))
			}
			if len(tt.domain) <= 230 && len(got) > 253 {
				t.Errorf("the host has %d characters", len(got))
			}
		})
	}
	if one, other := instance("tenant", "a-b", "u").Hostname("d"), instance("tenant-a", "b", "u").Hostname("d"); one[len(one)-18:] == other[len(other)-18:] {
		t.Errorf("tenant/a-b and tenant-a/b have the hash of %s", one)
	}
}

func TestDerivedNamesShareNothing(t *testing.T) {
	first := instance("clusters", "crc-0", "uid-1")
	tests := map[string]*ClusterInstance{
		"the next instance of the slot":        instance("clusters", "crc-0", "uid-2"),
		"the same name in another namespace":   instance("other", "crc-0", "uid-1"),
		"another name":                         instance("clusters", "crc-1", "uid-1"),
		"a name that looks the same cut short": instance("clusters", "crc.0", "uid-1"),
	}
	for name, other := range tests {
		t.Run(name, func(t *testing.T) {
			if other.DerivedName() == first.DerivedName() {
				t.Errorf("both are called %s", other.DerivedName())
			}
			if other.Hostname("d") == first.Hostname("d") {
				t.Errorf("both have host %s", other.Hostname("d"))
			}
		})
	}
	if again := instance("clusters", "crc-0", "uid-1"); again.DerivedName() != first.DerivedName() || again.RunName(1) == first.RunName(0) {
		t.Error("names are no function of the instance and the attempt")
	}
}

func TestSecretsOfASlotsNextInstanceHaveOtherNames(t *testing.T) {
	name := strings.Repeat("p", 40) + "-499"
	last, next := instance("clusters", name, "uid-1"), instance("clusters", name, "uid-2")
	for _, pair := range [][2]string{
		{last.IdentitySecretName(), next.IdentitySecretName()},
		{last.KubeconfigSecretName(), next.KubeconfigSecretName()},
	} {
		if pair[0] == pair[1] {
			t.Errorf("both lives of the slot have Secret %s", pair[0])
		}
	}
}

func TestInstanceName(t *testing.T) {
	if got := InstanceName("crc", 12); got != "crc-12" {
		t.Errorf("got %s", got)
	}
}

func TestPipelineName(t *testing.T) {
	tests := map[string]struct {
		provisioning *Provisioning
		want         string
	}{
		"nothing is said about provisioning": {want: "provision-crc"},
		"no Pipeline is named":               {provisioning: &Provisioning{RetryLimit: 1}, want: "provision-crc"},
		"a Pipeline is named":                {provisioning: &Provisioning{Pipeline: "mine"}, want: "mine"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := PipelineName(TypeCRC, tt.provisioning); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
