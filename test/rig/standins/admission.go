package standins

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const routerName = "default"

// admission is what the router says of one route.
type admission struct {
	route   *unstructured.Unstructured
	host    string
	reason  string
	message string
}

func (a admission) admitted() bool { return a.reason == "" }

// decide admits routes, the oldest first: it keeps a host that others ask for.
func decide(all []*unstructured.Unstructured, domain string) []admission {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(
			a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time),
			cmp.Compare(a.GetUID(), b.GetUID()))
	})
	owners := map[string]*unstructured.Unstructured{}
	var decisions []admission
	for _, route := range all {
		a := admission{route: route, host: host(route, domain)}
		termination, _, _ := unstructured.NestedString(route.Object, "spec", "tls", "termination")
		owner := owners[a.host]
		switch {
		case termination != "passthrough":
			a.reason, a.message = "UnsupportedTermination", "the rig's router knows passthrough only"
		case owner != nil:
			a.reason = "HostAlreadyClaimed"
			a.message = fmt.Sprintf("route %s in namespace %s already exposes %s and is older", owner.GetName(), owner.GetNamespace(), a.host)
		default:
			owners[a.host] = route
		}
		decisions = append(decisions, a)
	}
	return decisions
}

func host(route *unstructured.Unstructured, domain string) string {
	if host, _, _ := unstructured.NestedString(route.Object, "spec", "host"); host != "" {
		return host
	}
	return fmt.Sprintf("%s-%s.%s", route.GetName(), route.GetNamespace(), domain)
}

// ingress is the entry of status.ingress.
func (a admission) ingress(domain string, now time.Time) map[string]any {
	condition := map[string]any{"type": "Admitted", "status": "True", "lastTransitionTime": now.UTC().Format(time.RFC3339)}
	if !a.admitted() {
		condition["status"], condition["reason"], condition["message"] = "False", a.reason, a.message
	}
	return map[string]any{
		"host": a.host, "routerName": routerName, "wildcardPolicy": "None",
		"routerCanonicalHostname": "router-default." + domain,
		"conditions":              []any{condition},
	}
}

// settled tells whether the route's status says this already.
func (a admission) settled() bool {
	entries, _, _ := unstructured.NestedSlice(a.route.Object, "status", "ingress")
	if len(entries) != 1 {
		return false
	}
	entry, _ := entries[0].(map[string]any)
	conditions, _, _ := unstructured.NestedSlice(entry, "conditions")
	if entry["host"] != a.host || len(conditions) != 1 {
		return false
	}
	condition, _ := conditions[0].(map[string]any)
	reason, _ := condition["reason"].(string)
	return reason == a.reason && (condition["status"] == "True") == a.admitted()
}
