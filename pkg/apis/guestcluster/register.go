// Package guestcluster names the API group and the labels, annotations,
// finalizers and Secret keys that the controller, the steps and the YAML share.
package guestcluster

// GroupName is the API group of every Guestcluster kind.
const GroupName = "guestcluster.opdev.io"

// Namespaces of the installation.
const (
	// SystemNamespace holds the controller and the provisioning Pipelines and Tasks.
	SystemNamespace = "guestcluster-system"
	// BundleNamespace holds golden volumes, boot keys and prepare-bundle runs.
	BundleNamespace = "guestcluster-bundles"
)

// Labels. A label alone never proves ownership: the owner UID does.
const (
	// EnabledLabel on a namespace opts it in to instances; its value must be "true".
	EnabledLabel = GroupName + "/enabled"
	// PoolLabel carries the pool's name on instances and what they own.
	PoolLabel = GroupName + "/pool"
	// InstanceLabel carries the instance's name on its children.
	InstanceLabel = GroupName + "/instance"
	// InstanceUIDLabel carries the instance's UID on its children.
	InstanceUIDLabel = GroupName + "/instance-uid"
	// EndpointLabel carries the instance's UID on the one pod that serves the
	// guest API on port 6443: the instance's Service selects it.
	EndpointLabel = GroupName + "/endpoint"
	// BundleLabel carries the name of the CRCBundle on its golden volume, boot key and runs.
	BundleLabel = GroupName + "/bundle"
	// AttemptLabel carries the attempt number, from 0, on provisioning runs.
	AttemptLabel = GroupName + "/attempt"
	// ManagedByLabel is the well-known label, with value ManagedBy on all children.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of ManagedByLabel.
	ManagedBy = "guestcluster"
)

// Annotations.
const (
	// TemplateHashAnnotation on an instance is the hash of the pool template it was made from.
	TemplateHashAnnotation = GroupName + "/template-hash"
	// StepRoleAnnotation on a Pipeline names the ClusterRole that the
	// controller binds to the instance's ServiceAccount in its namespace.
	StepRoleAnnotation = GroupName + "/step-cluster-role"
	// OwnerInstanceAnnotation is namespace/name/UID of the ClusterInstance that an
	// object of another namespace belongs to: owner references end at the namespace.
	OwnerInstanceAnnotation = GroupName + "/owner-instance"
	// CustomRunAnnotation on a lease is the UID of the CustomRun that made it: only
	// that one takes it back when it is cancelled, fails or is deleted.
	CustomRunAnnotation = GroupName + "/custom-run"
	// CloneRole is the ClusterRole that lets steps clone golden volumes.
	CloneRole = "guestcluster-clone"
)

// Annotations of a golden volume. One that carries BundleSHA256Annotation is
// sealed: it is cloned and never written again.
const (
	// PrepareRunAnnotation holds the UID of the prepare-bundle run that writes the volume: a lock.
	PrepareRunAnnotation = GroupName + "/prepare-run"
	// PrepareRunNameAnnotation holds that run's name, by which another run sees whether it still lives.
	PrepareRunNameAnnotation = GroupName + "/prepare-run-name"
	// BundleSHA256Annotation holds the checksum of the bundle file, in hexadecimal.
	BundleSHA256Annotation = GroupName + "/bundle-sha256"
	// OCPVersionAnnotation holds the OpenShift version in the bundle.
	OCPVersionAnnotation = GroupName + "/ocp-version"
	// BuildTimeAnnotation holds when the bundle was built, RFC 3339, if the bundle tells.
	BuildTimeAnnotation = GroupName + "/build-time"
)

// Finalizers, one for each kind.
const (
	PoolFinalizer     = GroupName + "/pool"
	InstanceFinalizer = GroupName + "/instance"
	LeaseFinalizer    = GroupName + "/lease"
	BundleFinalizer   = GroupName + "/bundle"
	// CustomRunFinalizer is on a CustomRun of ours from before its lease exists until it is done.
	CustomRunFinalizer = GroupName + "/custom-run"
)

// Keys of the Secrets <service>-kubeconfig and <lease>-access.
const (
	// KubeconfigKey holds a kubeconfig whose server is the external endpoint.
	KubeconfigKey = "kubeconfig"
	// OCPVersionKey holds the version that the guest reports, without a leading v.
	OCPVersionKey = "ocpVersion"
	// RunUIDKey holds the UID of the PipelineRun that wrote the Secret.
	RunUIDKey = "runUID"
	// VMIUIDKey holds the UID of the VirtualMachineInstance behind the guest (crc).
	VMIUIDKey = "vmiUID"
	// SSHHostKeyKey holds the pinned SSH host key in authorized_keys format (crc).
	SSHHostKeyKey = "sshHostKey"
	// KubeadminPasswordKey holds the optional password of user kubeadmin.
	KubeadminPasswordKey = "kubeadmin-password"
)

// Keys of the immutable Secret <service>-identity. All values but the SSH
// keys (OpenSSH formats) are PEM.
const (
	SSHPrivateKeyKey = "ssh-privatekey"
	SSHPublicKeyKey  = "ssh-publickey"
	AdminCAKey       = "admin-ca.crt"
	AdminCertKey     = "admin.crt"
	AdminKeyKey      = "admin.key"
	ServingCAKey     = "serving-ca.crt"
	ServingCertKey   = "serving.crt"
	ServingKeyKey    = "serving.key"
	// BootSSHPrivateKeyKey holds a copy of the key that the guest's disk trusts at first boot (crc).
	BootSSHPrivateKeyKey = "boot-ssh-privatekey"
	// PullSecretKey holds a copy of the pull secret's .dockerconfigjson, so that its
	// deletion in mid-run does no harm (crc). KubeadminPasswordKey is there too.
	PullSecretKey = "pull-secret.json"
)

// Keys of the Secrets that people and bundles bring.
const (
	// BootKeyKey holds the private key of user core, in OpenSSH or PEM format, in
	// a bundle's boot key Secret and in the Secret of template.bundleSSHKeyRef.
	BootKeyKey = "id_ecdsa"
	// DockerConfigKey holds the pull secret in the Secret of template.pullSecretRef.
	DockerConfigKey = ".dockerconfigjson"
	// DefaultPullSecret is the pull secret's name when a crc template names none.
	DefaultPullSecret = "pull-secret"
)
