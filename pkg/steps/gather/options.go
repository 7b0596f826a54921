package gather

import (
	"flag"
	"time"

	"opdev.io/guestcluster/pkg/steps/step"
)

// Options are the step's flags.
type Options struct {
	// Instance, Namespace and InstanceUID are the ClusterInstance that owns the ConfigMap.
	Instance, Namespace, InstanceUID string
	// Name is that of the VirtualMachine and the DataVolume.
	Name string
	// IdentityDir is where the instance's identity Secret is mounted.
	IdentityDir string
	// KubeconfigSecret is the Secret that keeps the pinned host key.
	KubeconfigSecret string
	// ConfigMap is the name of what is written.
	ConfigMap string
	// Timeout bounds the whole step.
	Timeout time.Duration
	// ConfigMapPath is a result file.
	ConfigMapPath string
}

// Bind declares the flags.
func (o *Options) Bind(flags *flag.FlagSet) {
	flags.StringVar(&o.Instance, "instance", "", "name of the ClusterInstance")
	flags.StringVar(&o.Namespace, "namespace", "", "namespace of the ClusterInstance")
	flags.StringVar(&o.InstanceUID, "instance-uid", "", "UID of the ClusterInstance")
	flags.StringVar(&o.Name, "name", "", "name of the VirtualMachine and the DataVolume")
	flags.StringVar(&o.IdentityDir, "identity-dir", "", "where the identity Secret is mounted")
	flags.StringVar(&o.KubeconfigSecret, "kubeconfig-secret", "", "Secret that keeps the pinned host key")
	flags.StringVar(&o.ConfigMap, "configmap", "", "ConfigMap to write")
	flags.DurationVar(&o.Timeout, "timeout", 0, "how long the step may take")
	flags.StringVar(&o.ConfigMapPath, "configmap-path", "", "result file")
	step.BindFailure(flags)
}

func (o *Options) validate() error {
	for _, f := range []struct{ name, value string }{
		{"instance", o.Instance}, {"namespace", o.Namespace}, {"instance-uid", o.InstanceUID}, {"name", o.Name},
		{"kubeconfig-secret", o.KubeconfigSecret}, {"configmap", o.ConfigMap},
	} {
		if f.value == "" {
			return step.UserError("--%s is empty", f.name)
		}
	}
	if o.Timeout <= 0 {
		return step.UserError("timeout must be a positive duration such as 80s")
	}
	return nil
}
