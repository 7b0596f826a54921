package fixupguest

import (
	"flag"
	"regexp"
	"time"

	"opdev.io/guestcluster/pkg/steps/step"
)

// Options are the step's flags.
type Options struct {
	// Instance and Namespace name the ClusterInstance.
	Instance, Namespace string
	// Name is the VirtualMachine's.
	Name string
	// IdentityDir is where the instance's identity Secret is mounted.
	IdentityDir string
	// KubeconfigSecret is the Secret that keeps the pinned host key.
	KubeconfigSecret string
	// APIHost is the external host of the guest API.
	APIHost string
	// Timeout bounds the whole step.
	Timeout time.Duration
}

// Bind declares the flags.
func (o *Options) Bind(flags *flag.FlagSet) {
	flags.StringVar(&o.Instance, "instance", "", "name of the ClusterInstance")
	flags.StringVar(&o.Namespace, "namespace", "", "namespace of the ClusterInstance")
	flags.StringVar(&o.Name, "name", "", "name of the VirtualMachine")
	flags.StringVar(&o.IdentityDir, "identity-dir", "", "where the identity Secret is mounted")
	flags.StringVar(&o.KubeconfigSecret, "kubeconfig-secret", "", "Secret that keeps the pinned host key")
	flags.StringVar(&o.APIHost, "api-host", "", "external host of the guest API")
	flags.DurationVar(&o.Timeout, "timeout", 0, "how long the step may take")
	step.BindFailure(flags)
}

var hostPattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

func (o *Options) validate() error {
	for _, f := range []struct{ name, value string }{
		{"instance", o.Instance}, {"namespace", o.Namespace}, {"name", o.Name},
		{"identity-dir", o.IdentityDir}, {"kubeconfig-secret", o.KubeconfigSecret},
	} {
		if f.value == "" {
			return step.UserError("--%s is empty", f.name)
		}
	}
	if !hostPattern.MatchString(o.APIHost) {
		return step.UserError("api-host %q is not a host name", o.APIHost)
	}
	if o.Timeout <= 0 {
		return step.UserError("timeout must be a positive duration such as 45m")
	}
	return nil
}
