package cel_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/reconciler/claim"
)

// durations by what must happen to them. "either" must not break a client.
var (
	goodDurations = []string{"90m", "90m0s", "0.5h", "1h1h", "2h45m30s", "1h1m1s1ms1us1ns", "1µs", "1ns", "00001h", "2562047h", "1.000000000000000001h"}
	badDurations  = []string{"9999999999999h", "2562048h", "1 day", "-1h", "+1h", "0s", "0h0m", "1d", "1", "", "h", ".5h", "1.h", "1e3s", "1H", " 1h", "1h ", "1h-1m", "0.1ns", "1μs", "١h"}

	// quantities are JSON values.
	goodQuantities = []string{`"14Gi"`, `14`, `"1e3"`, `"0.5Gi"`, `"14"`, `"1E3"`, `"1.5Gi"`, `"14G"`, `"100m"`, `"+14Gi"`, `"00014Gi"`, `"9Ei"`, `"1n"`, `"1e-3"`, `".5Gi"`, `"1.Gi"`, `9007199254740993`}
	badQuantities  = []string{`"1e1.5"`, `"-1Gi"`, `"0"`, `0`, `-1`, `""`, `"Gi"`, `"14gi"`, `"14 Gi"`, `" 14Gi"`, `"14Gi "`, `"0x10"`, `"1e"`, `"NaN"`, `"Inf"`, `1.5`, `14.0`, `1e3`, `true`, `{}`, `[]`, `"1000000000000000000000000000000000Gi"`}
	// Comparing 1e999999999 takes minutes: the API server must not even try.
	hugeQuantities = []string{`"1e100"`, `"1e99999"`, `"1e999999999"`, `"1e999999999999"`, `"1E2147483647"`, `"1e-999999999"`}
	oddQuantities  = []string{`"99999999999999999999"`, `99999999999999999999`, `"0.0000000000000001n"`, `"9999Ei"`, `1e30`, `"1e18"`, `"1e40"`, `"1e99"`, `"1e-99"`, `"9223372036854775808"`, `"1.00000000000000000001"`}
)

func TestDurations(t *testing.T) {
	const refused = "spec.ttl"
	var rows []row
	for _, d := range goodDurations {
		rows = append(rows, row{name: "good " + d, with: fmt.Sprintf("spec: {ttl: %q}", d)})
		if _, err := time.ParseDuration(d); err != nil {
			t.Errorf("the table is wrong: %v", err)
		}
	}
	for _, d := range badDurations {
		rows = append(rows, row{name: "bad " + d, with: fmt.Sprintf("spec: {ttl: %q}", d), refused: refused})
	}
	rows = append(rows,
		row{name: "a number", with: "spec: {ttl: 3600}", refused: "must be of type string"},
		row{name: "null", with: "spec: {ttl: null}"},
		row{name: "33 characters", with: "spec: {ttl: 000000000000000000000000000000001h}", refused: refused},
	)
	run(t, leases, rows)
}

// TestDurationsEverywhere tries one odd and one bad duration in every field
// that has the type.
func TestDurationsEverywhere(t *testing.T) {
	paths := map[string][]string{
		"spareMaxAge": {"spareMaxAge"}, "defaultTTL": {"lease", "defaultTTL"}, "maxTTL": {"lease", "maxTTL"},
		"maxPending": {"lease", "maxPending"}, "timeout": {"provisioning", "timeout"},
	}
	var rows []row
	for name, path := range paths {
		nest := func(value string) string {
			text := fmt.Sprintf("%q", value)
			for i := len(path) - 1; i >= 0; i-- {
				text = fmt.Sprintf("{%s: %s}", path[i], text)
			}
			return "spec: " + text
		}
		rows = append(rows,
			row{name: name + " odd", with: nest("1h1h")},
			row{name: name + " overflow", with: nest("9999999999999h"), refused: name},
			row{name: name + " zero", with: nest("0s"), refused: "must be a positive duration"})
	}
	run(t, pools, rows)
}

func TestQuantities(t *testing.T) {
	namespace := shared.Namespace(t, nil)
	for _, path := range [][]string{{"spec", "template", "memory"}, {"spec", "template", "rootVolumeSize"}} {
		for _, q := range goodQuantities {
			tryQuantity(t, crcPools, namespace, path, q, "accepted")
		}
		for _, q := range slices.Concat(hugeQuantities, badQuantities) {
			tryQuantity(t, crcPools, namespace, path, q, "refused")
		}
		for _, q := range oddQuantities {
			tryQuantity(t, crcPools, namespace, path, q, "either")
		}
	}
	for _, q := range slices.Concat(badQuantities, oddQuantities) {
		tryQuantity(t, bundles, "", []string{"spec", "goldenVolumeSize"}, q, "either")
	}
	for _, q := range hugeQuantities {
		tryQuantity(t, bundles, "", []string{"spec", "goldenVolumeSize"}, q, "refused")
	}
}

// tryQuantity writes a JSON value and looks whether Go reads what was stored.
func tryQuantity(t *testing.T, k kind, namespace string, path []string, value, want string) {
	t.Run(fmt.Sprintf("%s=%s", path[len(path)-1], value), func(t *testing.T) {
		t.Parallel()
		object := k.object(t, "")
		const mark = "QUANTITY"
		if err := unstructured.SetNestedField(object.Object, mark, path...); err != nil {
			t.Fatal(err)
		}
		created, err := createRaw(t, k, namespace, object, mark, value)
		switch {
		case want == "accepted" && err != nil:
			t.Fatalf("refused: %v", err)
		case want == "refused" && err == nil:
			t.Fatalf("accepted")
		case err != nil:
			return
		}
		decodes(t, k, created)
		stored, _, _ := unstructured.NestedFieldNoCopy(created.Object, path...)
		var q resource.Quantity
		raw, _ := json.Marshal(stored)
		if err := q.UnmarshalJSON(raw); err != nil {
			t.Errorf("stored %s: %v", raw, err)
		}
		if q.Sign() <= 0 {
			t.Errorf("stored %s is %s, not positive", raw, q.String())
		}
	})
}

// createRaw sends JSON with one value spelled exactly as given.
func createRaw(t *testing.T, k kind, namespace string, object *unstructured.Unstructured, mark, value string) (*unstructured.Unstructured, error) {
	t.Helper()
	raw := replaceOnce(t, string(toJSON(t, object.Object)), `"`+mark+`"`, value)
	request := shared.Guest.GuestclusterV1alpha1().RESTClient().Post().Resource(k.resource).Body([]byte(raw)).
		SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json")
	if !k.cluster {
		request = request.Namespace(namespace)
	}
	answer, err := request.DoRaw(t.Context())
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, answer)
	}
	created := &unstructured.Unstructured{}
	return created, created.UnmarshalJSON(answer)
}

// TestClaimLeavesSpecAsWritten claims instances whose templates hold odd but
// valid values, as the controller does: a typed round trip would rewrite them
// and the template is immutable.
func TestClaimLeavesSpecAsWritten(t *testing.T) {
	namespace := shared.Namespace(t, nil)
	for i, q := range goodQuantities {
		timeout := goodDurations[i%len(goodDurations)]
		t.Run(q+" "+timeout, func(t *testing.T) {
			t.Parallel()
			object := crcInstances.object(t, fmt.Sprintf("spec: {provisioning: {timeout: %q}, template: {memory: QUANTITY, rootVolumeSize: 0.5Gi}}", timeout))
			created, err := createRaw(t, crcInstances, namespace, object, "QUANTITY", q)
			if err != nil {
				t.Fatal(err)
			}
			typed := shared.Guest.GuestclusterV1alpha1()
			instance, err := typed.ClusterInstances(namespace).Get(t.Context(), created.GetName(), metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			instance.MarkProvisioned("4.19.3")
			instance.MarkReachable(metav1.Now())
			instance.MarkDerived()
			if instance, err = typed.ClusterInstances(namespace).UpdateStatus(t.Context(), instance, metav1.UpdateOptions{}); err != nil {
				t.Fatalf("typed status update: %v", err)
			}
			lease := lease(namespace, "l")
			lease.UID = types.UID("uid-of-" + created.GetName())
			if err := claim.Write(t.Context(), shared.Guest, lease, instance); err != nil {
				t.Fatalf("claim: %v", err)
			}
			live, err := crcInstances.client(namespace).Get(t.Context(), created.GetName(), metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			claimed, found, _ := unstructured.NestedString(live.Object, "spec", "claimRef", "leaseUID")
			if !found || claimed != string(lease.UID) {
				t.Errorf("claimRef has lease UID %q", claimed)
			}
			unstructured.RemoveNestedField(live.Object, "spec", "claimRef")
			before, after := toJSON(t, created.Object["spec"]), toJSON(t, live.Object["spec"])
			if string(before) != string(after) {
				t.Errorf("the claim changed the spec:\n%s\n%s", before, after)
			}
		})
	}
}
