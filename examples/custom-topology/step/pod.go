package main

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
)

// apiPort is the port that the instance's Service forwards to.
const apiPort = 6443

// Directories in the guest's containers.
const (
	identityMount = "/etc/guest/identity"
	configMount   = "/etc/guest/config"
	dataMount     = "/var/lib/guest"
)

// newPod is the guest: etcd, kube-apiserver and kube-controller-manager. The
// first two are init containers that keep running, so that each starts when
// the one before it is there: the controller manager gives up on an API server
// that is not, and the kubelet would let it wait.
func newPod(o *options) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: o.meta()}
	pod.Labels[guestcluster.EndpointLabel] = o.instanceUID
	pod.Spec = corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyAlways,
		AutomountServiceAccountToken:  ptr.To(false),
		EnableServiceLinks:            ptr.To(false),
		TerminationGracePeriodSeconds: ptr.To[int64](5),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:   ptr.To(true),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		InitContainers: []corev1.Container{etcd(o), apiServer(o)},
		Containers:     []corev1.Container{controllerManager(o)},
		Volumes:        volumes(o),
	}
	return pod
}

func etcd(o *options) corev1.Container {
	c := container(o, "etcd", "20m", "64Mi", "512Mi",
		"--data-dir="+dataMount+"/etcd",
		"--unsafe-no-fsync",
		"--listen-client-urls=http://127.0.0.1:2379",
		"--advertise-client-urls=http://127.0.0.1:2379",
		"--listen-peer-urls=http://127.0.0.1:2380",
		"--log-level=warn")
	c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "data", MountPath: dataMount})
	return c
}

// apiServer signs service account tokens with the serving key: one key pair
// less to make and to keep. The certificate, not the key, verifies them, so
// that any PEM form of the key will do.
func apiServer(o *options) corev1.Container {
	c := container(o, "kube-apiserver", "100m", "256Mi", "1Gi",
		"--etcd-servers=http://127.0.0.1:2379",
		"--bind-address=0.0.0.0",
		"--secure-port=6443",
		"--client-ca-file="+identityMount+"/"+guestcluster.AdminCAKey,
		"--tls-cert-file="+identityMount+"/"+guestcluster.ServingCertKey,
		"--tls-private-key-file="+identityMount+"/"+guestcluster.ServingKeyKey,
		"--authorization-mode=RBAC",
		"--service-cluster-ip-range=10.96.0.0/24",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-signing-key-file="+identityMount+"/"+guestcluster.ServingKeyKey,
		"--service-account-key-file="+identityMount+"/"+guestcluster.ServingCertKey,
		"--endpoint-reconciler-type=none",
		"--enable-priority-and-fairness=false",
		"--profiling=false")
	c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	c.Ports = []corev1.ContainerPort{{Name: "api", ContainerPort: apiPort}}
	c.StartupProbe = &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(apiPort)}},
		PeriodSeconds: 1, FailureThreshold: 300,
	}
	c.ReadinessProbe = &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Scheme: corev1.URISchemeHTTPS, Path: "/readyz", Port: intstr.FromInt32(apiPort),
		}},
		PeriodSeconds: 2, TimeoutSeconds: 5,
	}
	return c
}

// controllerManager runs what a namespace needs: its service account, its CA
// ConfigMap and its end.
func controllerManager(o *options) corev1.Container {
	c := container(o, "kube-controller-manager", "20m", "64Mi", "512Mi",
		"--kubeconfig="+configMount+"/"+guestcluster.KubeconfigKey,
		"--controllers=namespace-controller,serviceaccount-controller,serviceaccount-token-controller,root-ca-certificate-publisher-controller,garbage-collector-controller",
		"--service-account-private-key-file="+identityMount+"/"+guestcluster.ServingKeyKey,
		"--root-ca-file="+identityMount+"/"+guestcluster.ServingCAKey,
		"--leader-elect=false",
		"--secure-port=0",
		"--profiling=false")
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "config", MountPath: configMount, ReadOnly: true})
	return c
}

func container(o *options, program, cpu, memory, maxMemory string, args ...string) corev1.Container {
	return corev1.Container{
		Name: program, Image: o.image,
		Command: []string{"/usr/local/bin/" + program}, Args: args,
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(maxMemory)},
		},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false),
			ReadOnlyRootFilesystem:   ptr.To(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "identity", MountPath: identityMount, ReadOnly: true},
			{Name: "tmp", MountPath: "/tmp"},
		},
	}
}

// volumes: of the identity only what a control plane needs, and not the SSH keys.
func volumes(o *options) []corev1.Volume {
	var items []corev1.KeyToPath
	for _, key := range []string{
		guestcluster.AdminCAKey, guestcluster.AdminCertKey, guestcluster.AdminKeyKey,
		guestcluster.ServingCAKey, guestcluster.ServingCertKey, guestcluster.ServingKeyKey,
	} {
		items = append(items, corev1.KeyToPath{Key: key, Path: key})
	}
	scratch := func() corev1.VolumeSource {
		return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse("1Gi"))}}
	}
	return []corev1.Volume{
		{Name: "identity", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: o.identitySecret, Items: items}}},
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: o.service},
		}}},
		{Name: "data", VolumeSource: scratch()},
		{Name: "tmp", VolumeSource: scratch()},
	}
}

// newConfigMap holds the controller manager's kubeconfig, which names files
// and no keys.
func newConfigMap(o *options) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: o.meta(), Data: map[string]string{guestcluster.KubeconfigKey: insideKubeconfig}}
}

const insideKubeconfig = `apiVersion: v1
kind: Config
current-context: admin
clusters:
  - name: guest
    cluster:
      server: https://localhost:6443
      certificate-authority: ` + identityMount + "/" + guestcluster.ServingCAKey + `
users:
  - name: admin
    user:
      client-certificate: ` + identityMount + "/" + guestcluster.AdminCertKey + `
      client-key: ` + identityMount + "/" + guestcluster.AdminKeyKey + `
contexts:
  - name: admin
    context:
      cluster: guest
      user: admin
`
