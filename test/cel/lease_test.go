package cel_test

import (
	"strings"
	"testing"
)

const holder = "{apiVersion: tekton.dev/v1, kind: PipelineRun, name: r, uid: u}"

func TestLeaseSpec(t *testing.T) {
	run(t, leases, []row{
		{name: "the base is accepted"},
		{name: "a name of 200 characters", with: "metadata: {name: " + strings.Repeat("a", 200) + "}"},
		{name: "a name of 201 characters", with: "metadata: {name: " + strings.Repeat("a", 201) + "}", refused: "a lease's name may have at most 200 characters"},
		{name: "no pool", with: "spec: {poolRef: null}", refused: "spec.poolRef: Required value"},
		{name: "a pool without a name", with: "spec: {poolRef: {name: null, namespace: n}}", refused: "spec.poolRef.name: Required value"},
		{name: "an empty pool name", with: "spec: {poolRef: {name: ''}}", refused: "spec.poolRef.name"},
		{name: "a pool name of 41 characters", with: "spec: {poolRef: {name: " + strings.Repeat("a", 41) + "}}", refused: "spec.poolRef.name"},
		{name: "a pool name that no object can have", with: "spec: {poolRef: {name: A_b}}", refused: "spec.poolRef.name"},
		{name: "a pool namespace that no namespace can have", with: "spec: {poolRef: {namespace: a.b}}", refused: "spec.poolRef.namespace"},
		{name: "an empty pool namespace", with: "spec: {poolRef: {namespace: ''}}"},
		{name: "the pool changed", update: "spec: {poolRef: {name: q}}", refused: "poolRef is immutable: make another lease"},
		{name: "the pool's namespace added", update: "spec: {poolRef: {namespace: q}}", refused: "poolRef is immutable"},
		{name: "the pool's namespace removed", with: "spec: {poolRef: {namespace: q}}", update: "spec: {poolRef: {namespace: null}}", refused: "poolRef is immutable"},

		{name: "requestedBy added", update: "spec: {requestedBy: me}", refused: "requestedBy is immutable"},
		{name: "requestedBy changed", with: "spec: {requestedBy: you}", update: "spec: {requestedBy: me}", refused: "requestedBy is immutable"},
		{name: "requestedBy removed", with: "spec: {requestedBy: you}", update: "spec: {requestedBy: null}", refused: "requestedBy is immutable"},
		{name: "requestedBy of 254 characters", with: "spec: {requestedBy: " + strings.Repeat("a", 254) + "}", refused: "spec.requestedBy"},

		{name: "priority 1000", with: "spec: {priority: 1000}"},
		{name: "priority 1001", with: "spec: {priority: 1001}", refused: "spec.priority"},
		{name: "priority negative", with: "spec: {priority: -1}", refused: "spec.priority"},
		{name: "priority changed", update: "spec: {priority: 1}", refused: "priority is immutable"},
		{name: "priority removed and defaulted to another", with: "spec: {priority: 5}", update: "spec: {priority: null}", refused: "priority is immutable"},
		{name: "priority removed and defaulted to the same", update: "spec: {priority: null}"},

		{name: "acquireTimeout added", update: "spec: {acquireTimeout: 1m}", refused: "acquireTimeout is immutable"},
		{name: "acquireTimeout changed", with: "spec: {acquireTimeout: 2m}", update: "spec: {acquireTimeout: 1m}", refused: "acquireTimeout is immutable"},
		{name: "acquireTimeout removed", with: "spec: {acquireTimeout: 2m}", update: "spec: {acquireTimeout: null}", refused: "acquireTimeout is immutable"},

		{name: "a holder", with: "spec: {holderRef: " + holder + "}"},
		{name: "a holder added", update: "spec: {holderRef: " + holder + "}", refused: "holderRef is immutable"},
		{name: "a holder removed", with: "spec: {holderRef: " + holder + "}", update: "spec: {holderRef: null}", refused: "holderRef is immutable"},
		{name: "a holder changed", with: "spec: {holderRef: " + holder + "}", update: "spec: {holderRef: {uid: v}}", refused: "holderRef is immutable"},
		{name: "a holder of another version", with: "spec: {holderRef: {apiVersion: tekton.dev/v1beta1, kind: PipelineRun, name: r, uid: u}}", refused: "spec.holderRef.apiVersion: Unsupported value"},
		{name: "a TaskRun as holder", with: "spec: {holderRef: {apiVersion: tekton.dev/v1, kind: TaskRun, name: r, uid: u}}", refused: "spec.holderRef.kind: Unsupported value"},
		{name: "a holder without a UID", with: "spec: {holderRef: {apiVersion: tekton.dev/v1, kind: PipelineRun, name: r}}", refused: "spec.holderRef.uid: Required value"},
		{name: "a holder with an empty UID", with: "spec: {holderRef: {apiVersion: tekton.dev/v1, kind: PipelineRun, name: r, uid: ''}}", refused: "spec.holderRef.uid"},

		{name: "ttl added", update: "spec: {ttl: 1h}"},
		{name: "ttl raised", with: "spec: {ttl: 1h}", update: "spec: {ttl: 61m}"},
		{name: "ttl written in another way", with: "spec: {ttl: 1h}", update: "spec: {ttl: 60m}"},
		{name: "ttl lowered", with: "spec: {ttl: 1h}", update: "spec: {ttl: 59m}", refused: "ttl may be added or raised, never lowered or removed"},
		{name: "ttl removed", with: "spec: {ttl: 1h}", update: "spec: {ttl: null}", refused: "ttl may be added or raised, never lowered or removed"},

		{name: "release set", update: "spec: {release: true}"},
		{name: "release from the start", with: "spec: {release: true}"},
		{name: "release set to false first", with: "spec: {release: false}", update: "spec: {release: true}"},
		{name: "release taken back", with: "spec: {release: true}", update: "spec: {release: false}", refused: "release cannot be taken back"},
		{name: "release removed", with: "spec: {release: true}", update: "spec: {release: null}", refused: "release cannot be taken back"},
	})
}

const (
	reference = "{namespace: ns, name: i, uid: u}"
	bound     = "phase: Bound\ninstanceRef: " + reference + "\nboundTime: '2026-01-01T00:00:00Z'\nkubeconfigSecretRef: {name: s}"
)

func TestLeaseStatus(t *testing.T) {
	run(t, leases, []row{
		{name: "Pending", updateStatus: "phase: Pending"},
		{name: "an unknown phase", updateStatus: "phase: Lost", refused: "status.phase: Unsupported value"},
		{name: "instanceRef before Bound", updateStatus: "instanceRef: " + reference},
		{name: "instanceRef cleared before Bound", setStatus: "instanceRef: " + reference, updateStatus: "instanceRef: null"},
		{name: "instanceRef changed before Bound", setStatus: "instanceRef: " + reference, updateStatus: "instanceRef: {uid: v}"},
		{name: "instanceRef without a UID", updateStatus: "instanceRef: {namespace: ns, name: i}", refused: "status.instanceRef.uid: Required value"},
		{name: "Bound with everything", updateStatus: bound},
		{name: "Bound without instanceRef", updateStatus: "phase: Bound\nboundTime: '2026-01-01T00:00:00Z'\nkubeconfigSecretRef: {name: s}", refused: "Bound needs instanceRef, boundTime and kubeconfigSecretRef"},
		{name: "Bound without boundTime", updateStatus: "phase: Bound\ninstanceRef: " + reference + "\nkubeconfigSecretRef: {name: s}", refused: "Bound needs"},
		{name: "Bound without a Secret", updateStatus: "phase: Bound\ninstanceRef: " + reference + "\nboundTime: '2026-01-01T00:00:00Z'", refused: "Bound needs"},
		{name: "Secret removed while Bound", setStatus: bound, updateStatus: "kubeconfigSecretRef: null", refused: "Bound needs"},
		{name: "instanceRef changed while Bound", setStatus: bound, updateStatus: "instanceRef: {uid: v}", refused: "boundTime and instanceRef are immutable from Bound on"},
		{name: "instanceRef removed while Bound", setStatus: bound, updateStatus: "instanceRef: null", refused: "boundTime and instanceRef are immutable from Bound on"},
		{name: "boundTime changed while Bound", setStatus: bound, updateStatus: "boundTime: '2026-01-01T00:00:01Z'", refused: "boundTime and instanceRef are immutable from Bound on"},
		{name: "boundTime removed on release", setStatus: bound, updateStatus: "{phase: Releasing, boundTime: null}", refused: "boundTime and instanceRef are immutable from Bound on"},
		{name: "expiresAt changed while Bound", setStatus: bound, updateStatus: "expiresAt: '2027-01-01T00:00:01Z'"},
		{name: "Bound to Releasing", setStatus: bound, updateStatus: "phase: Releasing"},
		{name: "Bound to Released", setStatus: bound, updateStatus: "phase: Released"},
		{name: "Bound to Failed", setStatus: bound, updateStatus: "phase: Failed"},
		{name: "Releasing to Released", setStatus: "phase: Releasing", updateStatus: "phase: Released"},
		{name: "Releasing to Failed", setStatus: "phase: Releasing", updateStatus: "phase: Failed"},
		{name: "Releasing to Bound", setStatus: "phase: Releasing", updateStatus: bound, refused: "a lease that is being released cannot be bound again"},
		{name: "Releasing to Pending", setStatus: "phase: Releasing", updateStatus: "phase: Pending", refused: "a lease that is being released cannot be bound again"},
		{name: "Releasing to nothing", setStatus: "phase: Releasing", updateStatus: "phase: null", refused: "a lease that is being released cannot be bound again"},
		{name: "Released to Pending", setStatus: "phase: Released", updateStatus: "phase: Pending", refused: "an ended lease stays ended"},
		{name: "Released to Bound", setStatus: "phase: Released", updateStatus: bound, refused: "an ended lease stays ended"},
		{name: "Released to Failed", setStatus: "phase: Released", updateStatus: "phase: Failed", refused: "an ended lease stays ended"},
		{name: "Failed to Pending", setStatus: "phase: Failed", updateStatus: "phase: Pending", refused: "an ended lease stays ended"},
		{name: "Failed to nothing", setStatus: "phase: Failed", updateStatus: "phase: null", refused: "an ended lease stays ended"},
		{name: "an ended lease gets another condition", setStatus: "phase: Failed", updateStatus: "ocpVersion: 4.19.3"},
		{name: "17 conditions", updateStatus: "conditions: [" + conditions(17) + "]", refused: "at most 16"},
		{name: "16 conditions", updateStatus: "conditions: [" + conditions(16) + "]"},
		{name: "an endpoint of 513 characters", updateStatus: "apiEndpoint: " + strings.Repeat("a", 513), refused: "Too long"},
	})
}
