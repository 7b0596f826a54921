package cel_test

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// replaceOnce replaces the one occurrence of a text.
func replaceOnce(t *testing.T, s, before, after string) string {
	t.Helper()
	if strings.Count(s, before) != 1 {
		t.Fatalf("%q is not once in %s", before, s)
	}
	return strings.Replace(s, before, after, 1)
}

func lease(namespace, name string) *v1alpha1.ClusterLease {
	return &v1alpha1.ClusterLease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func TestNamesAndColumns(t *testing.T) {
	for resource, want := range map[string]struct {
		short, scope string
		columns      []string
	}{
		"clusterpools":     {"cpool", "Namespaced", []string{"Type", "Ready", "Available", "Leased", "Total", "Max", "Waiting", "Provisioning", "Failed", "Failures", "Reason", "Age"}},
		"clusterinstances": {"cinst", "Namespaced", []string{"Type", "Phase", "Ready", "Version", "Lease", "Lease-Namespace", "Endpoint", "Reason", "Age"}},
		"clusterleases":    {"clease", "Namespaced", []string{"Pool", "Phase", "Instance", "Version", "Expires", "Queue", "Holder", "Requested-By", "Reason", "Age"}},
		"crcbundles":       {"crcb", "Cluster", []string{"Version", "Arch", "Phase", "OCP", "Reason", "Age"}},
	} {
		t.Run(resource, func(t *testing.T) {
			crd, err := shared.Dynamic.Resource(crds).Get(t.Context(), resource+"."+v1alpha1.SchemeGroupVersion.Group, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			short, _, _ := unstructured.NestedStringSlice(crd.Object, "spec", "names", "shortNames")
			categories, _, _ := unstructured.NestedStringSlice(crd.Object, "spec", "names", "categories")
			scope, _, _ := unstructured.NestedString(crd.Object, "spec", "scope")
			if !slices.Equal(short, []string{want.short}) || !slices.Equal(categories, []string{"guestcluster"}) || scope != want.scope {
				t.Errorf("short names %q, categories %q, scope %q", short, categories, scope)
			}
			// A rule that is too expensive or does not compile is reported here.
			conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
			for _, c := range conditions {
				m := c.(map[string]any)
				if m["type"] == "NonStructuralSchema" || m["type"] == "Terminating" || (m["type"] == "NamesAccepted" && m["status"] != "True") {
					t.Errorf("condition %v", m)
				}
			}
			if columns := columns(t, resource); !slices.Equal(columns[1:], want.columns) {
				t.Errorf("columns %q", columns)
			}
		})
	}
}

// columns asks for a table as kubectl get does.
func columns(t *testing.T, resource string) []string {
	t.Helper()
	table := &metav1.Table{}
	err := shared.Guest.GuestclusterV1alpha1().RESTClient().Get().Resource(resource).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Into(table)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range table.ColumnDefinitions {
		names = append(names, c.Name)
	}
	return names
}

func TestScaleChangesWarmSpares(t *testing.T) {
	namespace := shared.Namespace(t, nil)
	client := pools.client(namespace)
	pool, err := client.Create(t.Context(), pools.object(t, ""), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	scale := func(replicas string) error {
		_, err := client.Patch(t.Context(), pool.GetName(), types.MergePatchType, []byte(`{"spec":{"replicas":`+replicas+`}}`), metav1.PatchOptions{}, "scale")
		return err
	}
	if err := scale("2"); err != nil {
		t.Fatal(err)
	}
	live, err := client.Get(t.Context(), pool.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if spares, _, _ := unstructured.NestedInt64(live.Object, "spec", "warmSpares"); spares != 2 {
		t.Errorf("warmSpares is %d", spares)
	}
	if err := scale("4"); err == nil || !strings.Contains(err.Error(), "warmSpares may not exceed maxSize") {
		t.Errorf("scale beyond maxSize: %v", err)
	}
	if _, err := client.Patch(t.Context(), pool.GetName(), types.MergePatchType, []byte(`{"status":{"availableInstances":1}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	seen, err := client.Get(t.Context(), pool.GetName(), metav1.GetOptions{}, "scale")
	if err != nil {
		t.Fatal(err)
	}
	if n, _, _ := unstructured.NestedInt64(seen.Object, "status", "replicas"); n != 1 {
		t.Errorf("scale has %d replicas in its status", n)
	}
}

// TestStatusIsItsOwnResource keeps people with rights on a kind from writing
// its status, and the controller's status writes from changing a spec.
func TestStatusIsItsOwnResource(t *testing.T) {
	namespace := shared.Namespace(t, nil)
	for name, k := range map[string]kind{"pool": pools, "instance": instances, "lease": leases, "bundle": bundles} {
		t.Run(name, func(t *testing.T) {
			client := k.client(namespace)
			created, err := client.Create(t.Context(), k.object(t, "status: {ocpVersion: '1', totalInstances: 7}"), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if status, found := created.Object["status"]; found {
				t.Errorf("a new object has status %v", status)
			}
			changed, err := client.Patch(t.Context(), created.GetName(), types.MergePatchType, []byte(`{"spec":{"maxSize":9,"release":true,"sha256URL":"https://x"},"status":{"observedGeneration":1}}`), metav1.PatchOptions{}, "status")
			if err != nil {
				t.Fatal(err)
			}
			if string(toJSON(t, changed.Object["spec"])) != string(toJSON(t, created.Object["spec"])) {
				t.Errorf("a status write changed the spec to %v", changed.Object["spec"])
			}
		})
	}
}
