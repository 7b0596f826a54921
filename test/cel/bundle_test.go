package cel_test

import (
	"strings"
	"testing"
)

func TestBundle(t *testing.T) {
	preparing := "phase: Preparing"
	run(t, bundles, []row{
		{name: "the base is accepted"},
		{name: "arm64", with: "spec: {arch: arm64}"},
		{name: "the arch by default", with: "{metadata: {name: crc-4.18.1-amd64}, spec: {version: 4.18.1, arch: null}}"},
		{name: "another name", with: "{metadata: {name: crc-4.18.2-amd64}, spec: {version: 4.18.3}}", refused: "the name must be crc-<version>-<arch>"},
		{name: "another arch in the name", with: "{metadata: {name: crc-4.18.4-arm64}, spec: {version: 4.18.4}}", refused: "the name must be crc-<version>-<arch>"},
		{name: "an unknown arch", with: "spec: {arch: s390x}", refused: "spec.arch: Unsupported value"},
		{name: "a version that is none", with: "{metadata: {name: crc-latest-amd64}, spec: {version: latest}}", refused: "spec.version"},
		{name: "a release candidate", with: "spec: {version: 4.18.5-rc.1}"},
		{name: "http", with: "spec: {bundleURL: 'http://x/y.crcbundle'}", refused: "spec.bundleURL"},
		{name: "a bundle URL with a query", with: "spec: {bundleURL: 'https://x:8443/y@z.crcbundle?a=b@c#d'}"},
		{name: "a bundle URL of a host alone", with: "spec: {bundleURL: 'https://x'}"},
		{name: "a bundle URL with a user", with: "spec: {bundleURL: 'https://me@x/y.crcbundle'}", refused: "spec.bundleURL"},
		{name: "a bundle URL with user and password", with: "spec: {bundleURL: 'https://me:secret@x/y.crcbundle'}", refused: "spec.bundleURL"},
		{name: "a bundle URL without a host", with: "spec: {bundleURL: 'https://'}", refused: "spec.bundleURL"},
		{name: "a bundle URL of two lines", with: `spec: {bundleURL: "https://x/\ny"}`, refused: "spec.bundleURL"},
		{name: "a checksum URL with user and password", with: "spec: {sha256URL: 'https://me:secret@x/sums'}", refused: "spec.sha256URL"},
		{name: "a bundle URL of 1025 characters", with: "spec: {bundleURL: 'https://" + strings.Repeat("a", 1017) + "'}", refused: "spec.bundleURL"},
		{name: "a checksum URL without https", with: "spec: {sha256URL: 'ftp://x'}", refused: "spec.sha256URL"},
		{name: "a checksum", with: "spec: {sha256: " + strings.Repeat("0a", 32) + "}"},
		{name: "a short checksum", with: "spec: {sha256: " + strings.Repeat("a", 63) + "}", refused: "spec.sha256"},
		{name: "an upper-case checksum", with: "spec: {sha256: " + strings.Repeat("A", 64) + "}", refused: "spec.sha256"},
		{name: "a size", with: "spec: {goldenVolumeSize: 35Gi}"},
		{name: "no size at all", with: "spec: {goldenVolumeSize: 0}", refused: "must be a positive quantity"},

		{name: "changed before it is looked at", update: "spec: {storageClassName: fast}"},
		{name: "changed while Pending", setStatus: "phase: Pending", update: "spec: {storageClassName: fast}"},
		{name: "changed while Preparing", setStatus: preparing, update: "spec: {storageClassName: fast}", refused: "spec is immutable once the bundle is Preparing: delete the bundle to prepare it anew"},
		{name: "a field removed while Preparing", with: "spec: {storageClassName: fast}", setStatus: preparing, update: "spec: {storageClassName: null}", refused: "spec is immutable once"},
		{name: "changed when Ready", setStatus: "phase: Ready", update: "spec: {goldenVolumeSize: 40Gi}", refused: "spec is immutable once"},
		{name: "changed when Failed", setStatus: "phase: Failed", update: "spec: {goldenVolumeSize: 40Gi}", refused: "spec is immutable once"},
		{name: "labelled while Preparing", setStatus: preparing, update: "metadata: {labels: {a: b}}"},
		{name: "status goes on", setStatus: preparing, updateStatus: "{phase: Ready, goldenVolume: {namespace: ns, name: p, uid: u}, sha256: " + strings.Repeat("0a", 32) + "}"},
		{name: "an unknown phase", updateStatus: "phase: Done", refused: "status.phase: Unsupported value"},
		{name: "the version changed", update: "spec: {version: 4.1.1}", refused: "the name must be crc-<version>-<arch>"},
	})
}
