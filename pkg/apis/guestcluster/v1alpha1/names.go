package v1alpha1

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// DefaultArch is the architecture of a bundle when nothing names one.
const DefaultArch = "amd64"

const (
	// readableNameLength bounds the part of the instance's name in derived names,
	// so that gc-<part>-<hash> plus a suffix is a DNS label.
	readableNameLength = 30
	maxLabelLength     = 63
	maxHostLength      = 253
)

// DerivedName is the name of the instance's Service, Route, ServiceAccount, Role
// and RoleBindings, and the start of all its others'. It hashes namespace, name
// and UID: a slot's next instance shares nothing with the last.
func (i *ClusterInstance) DerivedName() string {
	return fmt.Sprintf("gc-%s-%s", i.readable(readableNameLength), i.hash(5))
}

// Hostname is the external host of the guest API below an ingress domain:
// api-<part>-<hash>. A long domain shortens the part, never the hash, which
// alone keeps tenant/a-b and tenant-a/b, and two lives of a slot, apart.
func (i *ClusterInstance) Hostname(domain string) string {
	hash := i.hash(8)
	room := min(maxLabelLength, maxHostLength-len("."+domain)) - len("api--"+hash)
	return fmt.Sprintf("api-%s-%s.%s", i.readable(max(room, 1)), hash, domain)
}

// readable is the start of the instance's name as part of a DNS label.
func (i *ClusterInstance) readable(length int) string {
	part := strings.ReplaceAll(i.Name, ".", "-")
	return strings.TrimRight(part[:min(length, len(part))], "-")
}

// hash of who this instance is. No part of an identity contains the separator.
func (i *ClusterInstance) hash(bytes int) string {
	sum := sha256.Sum256([]byte(i.Namespace + "/" + i.Name + "/" + string(i.UID)))
	return hex.EncodeToString(sum[:bytes])
}

// RunName is the deterministic name of the provisioning run of an attempt.
func (i *ClusterInstance) RunName(attempt int32) string {
	return fmt.Sprintf("%s-provision-%d", i.DerivedName(), attempt)
}

// IdentitySecretName is the name of the immutable Secret with keys and
// certificates. It is hashed like the rest: a kubelet keeps an immutable Secret
// by name, and gave a slot's next guest the certificate of the last.
func (i *ClusterInstance) IdentitySecretName() string {
	return i.DerivedName() + "-identity"
}

// KubeconfigSecretName is the name of the Secret that the provisioning run fills.
func (i *ClusterInstance) KubeconfigSecretName() string {
	return i.DerivedName() + "-kubeconfig"
}

// GatherName is the name of the ConfigMap with what was gathered of a failed guest.
func (i *ClusterInstance) GatherName() string {
	return i.DerivedName() + "-gather"
}

// CloneBindingName is the name of the RoleBinding in namespace
// guestcluster-bundles that lets the instance's steps clone its golden volume.
func (i *ClusterInstance) CloneBindingName() string {
	return i.DerivedName() + "-clone"
}

// BundleName is the name of the CRCBundle of a version, and of its golden volume.
func BundleName(version, arch string) string {
	return "crc-" + version + "-" + cmp.Or(arch, DefaultArch)
}

// BootKeySecretName is the name of the Secret with a bundle's boot key.
func BootKeySecretName(bundle string) string {
	return bundle + "-boot-key"
}

// InstanceName is the name of the instance in a slot of a pool.
func InstanceName(pool string, slot int32) string {
	return fmt.Sprintf("%s-%d", pool, slot)
}

// PipelineName is the name of the provisioning Pipeline of a topology.
func PipelineName(kind ClusterType, p *Provisioning) string {
	if p != nil && p.Pipeline != "" {
		return p.Pipeline
	}
	return "provision-" + string(kind)
}
