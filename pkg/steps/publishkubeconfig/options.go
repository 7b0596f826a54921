package publishkubeconfig

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
	// KubeconfigSecret is the Secret to fill; the instance owns it.
	KubeconfigSecret string
	// IdentityDir is where the instance's identity Secret is mounted.
	IdentityDir string
	// APIHost is the external host of the guest API.
	APIHost string
	// RunUID is the UID of the PipelineRun; the controller accepts no other's Secret.
	RunUID string
	// Timeout is how long to wait for the guest API.
	Timeout time.Duration
	// APIEndpointPath and OCPVersionPath are result files.
	APIEndpointPath, OCPVersionPath string
}

// Bind declares the flags.
func (o *Options) Bind(flags *flag.FlagSet) {
	flags.StringVar(&o.Instance, "instance", "", "name of the ClusterInstance")
	flags.StringVar(&o.Namespace, "namespace", "", "namespace of the ClusterInstance")
	flags.StringVar(&o.KubeconfigSecret, "kubeconfig-secret", "", "Secret to fill")
	flags.StringVar(&o.IdentityDir, "identity-dir", "", "where the identity Secret is mounted")
	flags.StringVar(&o.APIHost, "api-host", "", "external host of the guest API")
	flags.StringVar(&o.RunUID, "run-uid", "", "UID of the PipelineRun")
	flags.DurationVar(&o.Timeout, "timeout", 0, "how long to wait for the guest API")
	flags.StringVar(&o.APIEndpointPath, "api-endpoint-path", "", "result file")
	flags.StringVar(&o.OCPVersionPath, "ocp-version-path", "", "result file")
	step.BindFailure(flags)
}

var hostPattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

func (o *Options) validate() error {
	for _, f := range []struct{ name, value string }{
		{"instance", o.Instance}, {"namespace", o.Namespace}, {"kubeconfig-secret", o.KubeconfigSecret},
		{"identity-dir", o.IdentityDir}, {"run-uid", o.RunUID},
	} {
		if f.value == "" {
			return step.UserError("--%s is empty", f.name)
		}
	}
	if !hostPattern.MatchString(o.APIHost) {
		return step.UserError("api-host %q is not a host name", o.APIHost)
	}
	if o.Timeout <= 0 {
		return step.UserError("timeout must be a positive duration such as 5m")
	}
	return nil
}

// endpoint is the external URL. The port is written out: the controller
// compares it with the one that it assigned.
func (o *Options) endpoint() string { return "https://" + o.APIHost + ":443" }
