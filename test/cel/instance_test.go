package cel_test

import (
	"strings"
	"testing"
)

const claimRef = "{leaseNamespace: ns, leaseName: l, leaseUID: u}"

func TestInstanceSpec(t *testing.T) {
	run(t, instances, []row{
		{name: "the base is accepted"},
		{name: "standalone", with: "spec: {poolRef: null, slot: null}"},
		{name: "a slot without a pool", with: "spec: {poolRef: null}", refused: "poolRef and slot go together"},
		{name: "a pool without a slot", with: "spec: {slot: null}", refused: "poolRef and slot go together"},
		{name: "slot 499", with: "spec: {slot: 499}"},
		{name: "slot 500", with: "spec: {slot: 500}", refused: "spec.slot"},
		{name: "slot negative", with: "spec: {slot: -1}", refused: "spec.slot"},
		{name: "a pool without a UID", with: "spec: {poolRef: {uid: null}}", refused: "spec.poolRef.uid: Required value"},
		{name: "type hcp", with: "spec: {type: hcp}", refused: `Unsupported value: "hcp"`},
		{name: "type host", with: "spec: {type: host}", refused: `Unsupported value: "host"`},
		{name: "custom without a pipeline", with: "spec: {provisioning: null}", refused: "type custom needs provisioning.pipeline"},

		{name: "the type changed", update: "spec: {type: crc, template: {crcVersion: 4.19.3}}", refused: "type is immutable"},
		{name: "the pool changed", update: "spec: {poolRef: {uid: other}}", refused: "poolRef is immutable"},
		{name: "pool and slot removed", update: "spec: {poolRef: null, slot: null}", refused: "poolRef is immutable"},
		{name: "pool and slot added", with: "spec: {poolRef: null, slot: null}", update: "spec: {poolRef: {name: p, uid: u}, slot: 1}", refused: "slot is immutable"},
		{name: "the slot changed", update: "spec: {slot: 1}", refused: "slot is immutable"},
		{name: "the template changed", update: "spec: {template: {ocpVersion: 4.19.3}}", refused: "template is immutable: delete the instance and make another"},
		{name: "a param removed", with: "spec: {template: {params: {a: b}}}", update: "spec: {template: {params: {a: null}}}", refused: "template is immutable"},
		{name: "provisioning changed", update: "spec: {provisioning: {pipeline: other}}", refused: "provisioning is immutable"},
		{name: "a timeout changed", update: "spec: {provisioning: {timeout: 61m}}", refused: "provisioning is immutable"},
		{name: "a label changed", update: "metadata: {labels: {a: b}}"},

		{name: "a claim", update: "spec: {claimRef: " + claimRef + "}"},
		{name: "a claim from the start", with: "spec: {claimRef: " + claimRef + "}"},
		{name: "the same claim again", with: "spec: {claimRef: " + claimRef + "}", update: "spec: {claimRef: " + claimRef + "}"},
		{name: "another lease's claim", with: "spec: {claimRef: " + claimRef + "}", update: "spec: {claimRef: {leaseUID: v}}", refused: "claimRef is set once: an instance serves one lease, ever"},
		{name: "another lease's name in the claim", with: "spec: {claimRef: " + claimRef + "}", update: "spec: {claimRef: {leaseName: m}}", refused: "claimRef is set once"},
		{name: "the claim removed", with: "spec: {claimRef: " + claimRef + "}", update: "spec: {claimRef: null}", refused: "claimRef is set once"},
		{name: "a claim without a UID", update: "spec: {claimRef: {leaseNamespace: ns, leaseName: l}}", refused: "spec.claimRef.leaseUID: Required value"},
		{name: "a claim with an empty UID", update: "spec: {claimRef: {leaseNamespace: ns, leaseName: l, leaseUID: ''}}", refused: "spec.claimRef.leaseUID"},
		{name: "a claim with an empty name", update: "spec: {claimRef: {leaseNamespace: ns, leaseName: '', leaseUID: u}}", refused: "spec.claimRef.leaseName"},
	})
}

func TestInstanceOfCRC(t *testing.T) {
	run(t, crcInstances, []row{
		{name: "with a version"},
		{name: "with an image and its key", with: "spec: {template: {crcVersion: null, releaseImage: 'https://x/y.qcow2', bundleSSHKeyRef: {name: k}}}"},
		{name: "with nothing", with: "spec: {template: {crcVersion: null}}", refused: "type crc needs template.crcVersion, or template.releaseImage with template.bundleSSHKeyRef"},
		{name: "with params", with: "spec: {template: {params: {a: b}}}", refused: "template.params is for type custom only"},
		{name: "provisioning added", update: "spec: {provisioning: {pipeline: x}}", refused: "provisioning is immutable"},
		{name: "provisioning removed", with: "spec: {provisioning: {pipeline: x}}", update: "spec: {provisioning: null}", refused: "provisioning is immutable"},
		{name: "memory written in another way", with: "spec: {template: {memory: 14Gi}}", update: "spec: {template: {memory: 14336Mi}}", refused: "template is immutable"},
	})
}

func TestInstanceStatus(t *testing.T) {
	run(t, instances, []row{
		{name: "every field", updateStatus: "{phase: Ready, ocpVersion: 4.19.3, topology: custom, apiEndpoint: 'https://x', readyTime: '2026-01-01T00:00:00Z', run: {name: r, attempt: 1}, failure: {reason: RunFailed, time: '2026-01-01T00:00:00Z'}}"},
		{name: "an unknown phase", updateStatus: "phase: Bound", refused: "status.phase: Unsupported value"},
		{name: "a failure without a reason", updateStatus: "failure: {run: r}", refused: "status.failure.reason: Required value"},
		{name: "a message of 2049 characters", updateStatus: "failure: {reason: X, message: " + strings.Repeat("a", 2049) + "}", refused: "status.failure.message"},
		{name: "17 conditions", updateStatus: "conditions: [" + conditions(17) + "]", refused: "at most 16"},
	})
}
