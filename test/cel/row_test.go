package cel_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// row is one rule tried on one object. The object is its kind's base with the
// merge patch with; setStatus is written to it; then update and updateStatus
// are tried. Without these the creation itself is what is tried. All but name
// and refused are YAML.
type row struct {
	name string
	with string
	// setStatus prepares, update and updateStatus are judged.
	setStatus, update, updateStatus string
	// refused is part of the API server's message; empty means accepted.
	refused string
}

// kind is a resource with a base object that is accepted.
type kind struct {
	resource string
	base     string
	cluster  bool
}

var (
	pools = kind{resource: "clusterpools", base: `
kind: ClusterPool
spec: {type: custom, maxSize: 3, provisioning: {pipeline: make-it}, template: {}}`}
	crcPools = kind{resource: "clusterpools", base: `
kind: ClusterPool
spec: {type: crc, maxSize: 3, template: {crcVersion: 4.19.3}}`}
	instances = kind{resource: "clusterinstances", base: `
kind: ClusterInstance
spec: {type: custom, poolRef: {name: p, uid: pool-uid}, slot: 0, provisioning: {pipeline: make-it}, template: {}}`}
	crcInstances = kind{resource: "clusterinstances", base: `
kind: ClusterInstance
spec: {type: crc, template: {crcVersion: 4.19.3}}`}
	leases = kind{resource: "clusterleases", base: `
kind: ClusterLease
spec: {poolRef: {name: p}}`}
	bundles = kind{resource: "crcbundles", cluster: true, base: `
kind: CRCBundle
spec: {arch: amd64}`}
)

func (k kind) client(namespace string) dynamic.ResourceInterface {
	all := shared.Dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource(k.resource))
	if k.cluster {
		return all
	}
	return all.Namespace(namespace)
}

// object is the base with a merge patch, named uniquely unless the patch does.
func (k kind) object(t *testing.T, with string) *unstructured.Unstructured {
	t.Helper()
	object := fromYAML(t, k.base)
	object["apiVersion"] = v1alpha1.SchemeGroupVersion.String()
	merge(object, fromYAML(t, with))
	u := &unstructured.Unstructured{Object: object}
	if u.GetName() == "" {
		u.SetName(k.name(u))
	}
	return u
}

func (k kind) name(u *unstructured.Unstructured) string {
	name := shared.Name("x")
	if !k.cluster {
		return name
	}
	// A bundle's name repeats its spec, so the version is what makes it unique.
	version, found, _ := unstructured.NestedString(u.Object, "spec", "version")
	if !found {
		version = "4.19." + strings.TrimPrefix(name, "x-")
		_ = unstructured.SetNestedField(u.Object, version, "spec", "version")
	}
	arch, _, _ := unstructured.NestedString(u.Object, "spec", "arch")
	return fmt.Sprintf("crc-%s-%s", version, arch)
}

func run(t *testing.T, k kind, rows []row) {
	t.Helper()
	namespace := shared.Namespace(t, nil)
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			r.try(t, k, namespace)
		})
	}
}

func (r row) try(t *testing.T, k kind, namespace string) {
	client := k.client(namespace)
	object := k.object(t, r.with)
	created, err := client.Create(t.Context(), object, metav1.CreateOptions{})
	if r.update == "" && r.updateStatus == "" && r.setStatus == "" {
		judge(t, "create", err, r.refused)
		if err == nil {
			decodes(t, k, created)
		}
		return
	}
	if err != nil {
		t.Fatalf("prepare: %v", err)
	}
	if r.setStatus != "" {
		_, err := client.Patch(t.Context(), created.GetName(), types.MergePatchType, statusPatch(t, r.setStatus), metav1.PatchOptions{}, "status")
		if err != nil {
			t.Fatalf("prepare status: %v", err)
		}
	}
	if r.update != "" {
		_, err := client.Patch(t.Context(), created.GetName(), types.MergePatchType, toJSON(t, fromYAML(t, r.update)), metav1.PatchOptions{})
		judge(t, "update", err, r.refused)
	}
	if r.updateStatus != "" {
		_, err := client.Patch(t.Context(), created.GetName(), types.MergePatchType, statusPatch(t, r.updateStatus), metav1.PatchOptions{}, "status")
		judge(t, "status update", err, r.refused)
	}
	decodes(t, k, created)
}

func judge(t *testing.T, what string, err error, refused string) {
	t.Helper()
	switch {
	case refused == "" && err != nil:
		t.Errorf("%s was refused: %v", what, err)
	case refused != "" && err == nil:
		t.Errorf("%s was accepted; want a refusal with %q", what, refused)
	case refused != "" && !strings.Contains(err.Error(), refused):
		t.Errorf("%s was refused with %q; want %q", what, err, refused)
	}
}

// decodes proves that a typed client can read what was stored: one object that
// it cannot read would stop the informers of the whole cluster.
func decodes(t *testing.T, k kind, object *unstructured.Unstructured) {
	t.Helper()
	typed := shared.Guest.GuestclusterV1alpha1()
	var err error
	switch k.resource {
	case pools.resource:
		_, err = typed.ClusterPools(object.GetNamespace()).Get(t.Context(), object.GetName(), metav1.GetOptions{})
	case instances.resource:
		_, err = typed.ClusterInstances(object.GetNamespace()).Get(t.Context(), object.GetName(), metav1.GetOptions{})
	case leases.resource:
		_, err = typed.ClusterLeases(object.GetNamespace()).Get(t.Context(), object.GetName(), metav1.GetOptions{})
	case bundles.resource:
		_, err = typed.CRCBundles().Get(t.Context(), object.GetName(), metav1.GetOptions{})
	}
	if err != nil {
		t.Errorf("a stored object cannot be read by a typed client: %v", err)
	}
}

func merge(into, patch map[string]any) {
	for key, value := range patch {
		inner, isMap := value.(map[string]any)
		below, hasMap := into[key].(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case isMap && hasMap:
			merge(below, inner)
		default:
			into[key] = value
		}
	}
}

func fromYAML(t *testing.T, text string) map[string]any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	into := map[string]any{}
	if err := json.Unmarshal(raw, &into); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return into
}

func statusPatch(t *testing.T, text string) []byte {
	t.Helper()
	return toJSON(t, map[string]any{"status": fromYAML(t, text)})
}

func toJSON(t *testing.T, value any) []byte {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// crds is where the definitions themselves live.
var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
