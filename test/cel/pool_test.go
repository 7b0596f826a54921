package cel_test

import (
	"strings"
	"testing"
)

func TestPoolSpec(t *testing.T) {
	run(t, pools, []row{
		{name: "the base is accepted"},
		{name: "a name of 40 characters", with: "metadata: {name: " + strings.Repeat("a", 40) + "}"},
		{name: "a name of 41 characters", with: "metadata: {name: " + strings.Repeat("b", 41) + "}", refused: "a pool's name may have at most 40 characters"},

		{name: "minSize equal to maxSize", with: "spec: {minSize: 3}"},
		{name: "minSize above maxSize", with: "spec: {minSize: 4}", refused: "minSize may not exceed maxSize"},
		{name: "warmSpares equal to maxSize", with: "spec: {warmSpares: 3}"},
		{name: "warmSpares above maxSize", with: "spec: {warmSpares: 4}", refused: "warmSpares may not exceed maxSize"},
		{name: "maxSize lowered below minSize", with: "spec: {minSize: 2}", update: "spec: {maxSize: 1}", refused: "minSize may not exceed maxSize"},
		{name: "maxSize raised", update: "spec: {maxSize: 500}"},
		{name: "maxSize 0", with: "spec: {maxSize: 0}", refused: "spec.maxSize"},
		{name: "maxSize 501", with: "spec: {maxSize: 501}", refused: "less than or equal to 500"},
		{name: "maxSize missing", with: "spec: {maxSize: null}", refused: "spec.maxSize: Required value"},
		{name: "minSize negative", with: "spec: {minSize: -1}", refused: "spec.minSize"},
		{name: "minSize 501", with: "spec: {minSize: 501}", refused: "spec.minSize"},
		{name: "warmSpares negative", with: "spec: {warmSpares: -1}", refused: "spec.warmSpares"},
		{name: "warmSpares 501", with: "spec: {warmSpares: 501}", refused: "spec.warmSpares"},
		{name: "maxConcurrent 0", with: "spec: {maxConcurrent: 0}", refused: "spec.maxConcurrent"},
		{name: "maxConcurrent 501", with: "spec: {maxConcurrent: 501}", refused: "spec.maxConcurrent"},
		{name: "maxConcurrent 1", with: "spec: {maxConcurrent: 1}"},
		{name: "a fraction as a size", with: "spec: {maxSize: 1.5}", refused: "spec.maxSize"},

		{name: "type hcp", with: "spec: {type: hcp}", refused: `Unsupported value: "hcp"`},
		{name: "type host", with: "spec: {type: host}", refused: `Unsupported value: "host"`},
		{name: "type missing", with: "spec: {type: null}", refused: "spec.type: Required value"},
		{name: "template missing", with: "spec: {template: null}", refused: "spec.template: Required value"},
		{name: "type changed", update: "spec: {type: crc, template: {crcVersion: 4.19.3}}", refused: "type is immutable: make another pool"},

		{name: "custom without a pipeline", with: "spec: {provisioning: {pipeline: null}}", refused: "type custom needs provisioning.pipeline"},
		{name: "custom without provisioning", with: "spec: {provisioning: null}", refused: "type custom needs provisioning.pipeline"},
		{name: "the pipeline removed", update: "spec: {provisioning: {pipeline: null}}", refused: "type custom needs provisioning.pipeline"},
		{name: "the pipeline changed", update: "spec: {provisioning: {pipeline: other}}"},
		{name: "an empty pipeline", with: `spec: {provisioning: {pipeline: ""}}`, refused: "spec.provisioning.pipeline"},
		{name: "a pipeline of 64 characters", with: "spec: {provisioning: {pipeline: " + strings.Repeat("a", 64) + "}}", refused: "spec.provisioning.pipeline"},
		{name: "custom with params", with: "spec: {template: {params: {a: b}}}"},
		{name: "custom with crcVersion", with: "spec: {template: {crcVersion: 4.19.3}}", refused: "are for type crc only"},
		{name: "custom with crcArch", with: "spec: {template: {crcArch: amd64}}", refused: "are for type crc only"},
		{name: "custom with releaseImage", with: "spec: {template: {releaseImage: x}}", refused: "are for type crc only"},
		{name: "custom with bundleSSHKeyRef", with: "spec: {template: {bundleSSHKeyRef: {name: x}}}", refused: "are for type crc only"},
		{name: "32 params", with: "spec: {template: {params: {" + entries(32) + "}}}"},
		{name: "33 params", with: "spec: {template: {params: {" + entries(33) + "}}}", refused: "at most 32"},
		{name: "a param of 4096 characters", with: "spec: {template: {params: {a: " + strings.Repeat("a", 4096) + "}}}"},
		{name: "a param of 4097 characters", with: "spec: {template: {params: {a: " + strings.Repeat("a", 4097) + "}}}", refused: "Too long"},
		{name: "a param that is no string", with: "spec: {template: {params: {a: 1}}}", refused: "must be of type string"},

		{name: "retryLimit 0", with: "spec: {provisioning: {retryLimit: 0}}", refused: "spec.provisioning.retryLimit"},
		{name: "retryLimit 101", with: "spec: {provisioning: {retryLimit: 101}}", refused: "spec.provisioning.retryLimit"},
		{name: "updateStrategy Recreate", with: "spec: {updateStrategy: Recreate}"},
		{name: "updateStrategy Never", with: "spec: {updateStrategy: Never}", refused: "spec.updateStrategy: Unsupported value"},
		{name: "maxPriority 1000", with: "spec: {lease: {maxPriority: 1000}}"},
		{name: "maxPriority 1001", with: "spec: {lease: {maxPriority: 1001}}", refused: "spec.lease.maxPriority"},
		{name: "maxPerNamespace 1", with: "spec: {lease: {maxPerNamespace: 1}}"},
		{name: "maxPerNamespace 0", with: "spec: {lease: {maxPerNamespace: 0}}", refused: "spec.lease.maxPerNamespace"},
		{name: "maxPerNamespace 501", with: "spec: {lease: {maxPerNamespace: 501}}", refused: "spec.lease.maxPerNamespace"},
		{name: "maxPriority negative", with: "spec: {lease: {maxPriority: -1}}", refused: "spec.lease.maxPriority"},
		{name: "defaultTTL equal to maxTTL", with: "spec: {lease: {defaultTTL: 60m, maxTTL: 1h}}"},
		{name: "defaultTTL above maxTTL", with: "spec: {lease: {defaultTTL: 61m, maxTTL: 1h}}", refused: "defaultTTL may not exceed maxTTL"},
		{name: "maxTTL lowered below defaultTTL", with: "spec: {lease: {defaultTTL: 1h}}", update: "spec: {lease: {maxTTL: 1m}}", refused: "defaultTTL may not exceed maxTTL"},
	})
}

func TestPoolOfCRC(t *testing.T) {
	run(t, crcPools, []row{
		{name: "with a version"},
		{name: "with an image and its key", with: "spec: {template: {crcVersion: null, releaseImage: 'https://x/y.qcow2', bundleSSHKeyRef: {name: k}}}"},
		{name: "with an image and no key", with: "spec: {template: {crcVersion: null, releaseImage: 'https://x/y.qcow2'}}", refused: "type crc needs template.crcVersion, or template.releaseImage with template.bundleSSHKeyRef"},
		{name: "with an image by http", with: "spec: {template: {crcVersion: null, releaseImage: 'http://x/y.qcow2?a=b@c', bundleSSHKeyRef: {name: k}}}"},
		{name: "with an image of a registry", with: "spec: {template: {crcVersion: null, releaseImage: 'docker://x:5000/y@sha256:0', bundleSSHKeyRef: {name: k}}}"},
		{name: "with an image beside a version, which wins", with: "spec: {template: {releaseImage: 'quay.io/x/y@sha256:0'}}"},
		{name: "with a user in the image's URL", with: "spec: {template: {releaseImage: 'https://me@x/y.qcow2'}}", refused: "spec.template.releaseImage"},
		{name: "with a password in the image's URL", with: "spec: {template: {releaseImage: 'ftp://me:secret@x/y.qcow2'}}", refused: "spec.template.releaseImage"},
		{name: "with a key and no image", with: "spec: {template: {crcVersion: null, bundleSSHKeyRef: {name: k}}}", refused: "type crc needs"},
		{name: "with nothing", with: "spec: {template: {crcVersion: null}}", refused: "type crc needs"},
		{name: "the version removed", update: "spec: {template: {crcVersion: null}}", refused: "type crc needs"},
		{name: "the version changed", update: "spec: {template: {crcVersion: 4.20.0}}"},
		{name: "with params", with: "spec: {template: {params: {a: b}}}", refused: "template.params is for type custom only"},
		{name: "params added", update: "spec: {template: {params: {a: b}}}", refused: "template.params is for type custom only"},
		{name: "a version with a suffix", with: "spec: {template: {crcVersion: 4.20.0-rc.1}}"},
		{name: "a version that is none", with: "spec: {template: {crcVersion: latest}}", refused: "spec.template.crcVersion"},
		{name: "a version of 41 characters", with: "spec: {template: {crcVersion: 4.19.3-" + strings.Repeat("a", 34) + "}}", refused: "spec.template.crcVersion"},
		{name: "an empty version", with: `spec: {template: {crcVersion: ""}}`, refused: "spec.template.crcVersion"},
		{name: "arm64", with: "spec: {template: {crcArch: arm64}}"},
		{name: "another arch", with: "spec: {template: {crcArch: s390x}}", refused: "spec.template.crcArch: Unsupported value"},
		{name: "an empty image", with: `spec: {template: {releaseImage: ""}}`, refused: "spec.template.releaseImage"},
		{name: "cores 0", with: "spec: {template: {cores: 0}}", refused: "spec.template.cores"},
		{name: "cores 512", with: "spec: {template: {cores: 512}}"},
		{name: "cores 513", with: "spec: {template: {cores: 513}}", refused: "spec.template.cores"},
		{name: "an empty pull secret", with: `spec: {template: {pullSecretRef: {name: ""}}}`, refused: "spec.template.pullSecretRef.name"},
		{name: "a pull secret without a name", with: `spec: {template: {pullSecretRef: {}}}`, refused: "spec.template.pullSecretRef.name: Required value"},
		{name: "17 node labels", with: "spec: {template: {vmNodeSelector: {" + entries(17) + "}}}", refused: "at most 16"},
		{name: "a long node label", with: "spec: {template: {vmNodeSelector: {a: " + strings.Repeat("a", 64) + "}}}", refused: "Too long"},
	})
}

func TestPoolAllowedNamespaces(t *testing.T) {
	run(t, pools, []row{
		{name: "everything", with: "spec: {allowedNamespaces: {}}"},
		{name: "matchLabels", with: "spec: {allowedNamespaces: {matchLabels: {team: a}}}"},
		{name: "In with values", with: "spec: {allowedNamespaces: {matchExpressions: [{key: a, operator: In, values: [x]}]}}"},
		{name: "In without values", with: "spec: {allowedNamespaces: {matchExpressions: [{key: a, operator: In}]}}", refused: "In and NotIn need values; Exists and DoesNotExist take none"},
		{name: "NotIn with an empty list", with: "spec: {allowedNamespaces: {matchExpressions: [{key: a, operator: NotIn, values: []}]}}", refused: "In and NotIn need values"},
		{name: "Exists without values", with: "spec: {allowedNamespaces: {matchExpressions: [{key: a, operator: Exists}]}}"},
		{name: "Exists with an empty list", with: "spec: {allowedNamespaces: {matchExpressions: [{key: a, operator: Exists, values: []}]}}"},
		{name: "DoesNotExist with values", with: "spec: {allowedNamespaces: {matchExpressions: [{key: a, operator: DoesNotExist, values: [x]}]}}", refused: "In and NotIn need values"},
		{name: "an unknown operator", with: "spec: {allowedNamespaces: {matchExpressions: [{key: a, operator: Gt, values: ['1']}]}}", refused: "Unsupported value"},
		{name: "an empty key", with: "spec: {allowedNamespaces: {matchExpressions: [{key: '', operator: Exists}]}}", refused: "matchExpressions[0].key"},
		{name: "a value of 64 characters", with: "spec: {allowedNamespaces: {matchLabels: {a: " + strings.Repeat("a", 64) + "}}}", refused: "Too long"},
		{name: "17 labels", with: "spec: {allowedNamespaces: {matchLabels: {" + entries(17) + "}}}", refused: "at most 16"},
	})
}
