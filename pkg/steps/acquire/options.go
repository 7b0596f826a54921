package acquire

import (
	"flag"

	"opdev.io/guestcluster/pkg/lessee"
	"opdev.io/guestcluster/pkg/steps/step"
)

// Options are the step's flags.
type Options struct {
	lessee.Order
	// WriteKubeconfig asks for file KubeconfigDir/kubeconfig.
	WriteKubeconfig bool
	KubeconfigDir   string
	// Paths of the result files.
	Paths ResultPaths
}

// ResultPaths says where the results go.
type ResultPaths struct {
	Lease, KubeconfigSecret, APIEndpoint, OCPVersion, Topology, ExpiresAt string
}

// Bind declares the flags.
func (o *Options) Bind(flags *flag.FlagSet) {
	step.BindHolder(flags, &o.Holder)
	flags.StringVar(&o.Pool, "pool", "", "name of the ClusterPool")
	flags.StringVar(&o.PoolNamespace, "pool-namespace", "", "namespace of the ClusterPool")
	flags.StringVar(&o.TTL, "ttl", "", "how long the cluster may be held")
	flags.DurationVar(&o.AcquireTimeout, "acquire-timeout", 0, "how long to wait for a cluster")
	flags.IntVar(&o.Priority, "priority", 0, "a higher one is served first")
	flags.StringVar(&o.RequestedBy, "requested-by", "", "who asks, for people")
	flags.BoolVar(&o.WriteKubeconfig, "write-kubeconfig", false, "write the kubeconfig to --kubeconfig-dir")
	flags.StringVar(&o.KubeconfigDir, "kubeconfig-dir", "", "directory for file kubeconfig")
	flags.StringVar(&o.Paths.Lease, "lease-path", "", "result file")
	flags.StringVar(&o.Paths.KubeconfigSecret, "kubeconfig-secret-path", "", "result file")
	flags.StringVar(&o.Paths.APIEndpoint, "api-endpoint-path", "", "result file")
	flags.StringVar(&o.Paths.OCPVersion, "ocp-version-path", "", "result file")
	flags.StringVar(&o.Paths.Topology, "topology-path", "", "result file")
	flags.StringVar(&o.Paths.ExpiresAt, "expires-at-path", "", "result file")
}

// validate says what the user got wrong before anything is made.
func (o *Options) validate() error {
	if problem := o.Validate(); problem != nil {
		return step.OfProblem(problem)
	}
	if o.WriteKubeconfig && o.KubeconfigDir == "" {
		return step.UserError("--write-kubeconfig needs --kubeconfig-dir")
	}
	return nil
}

// path is the file of a result.
func (p *ResultPaths) path(result string) string {
	return map[string]string{
		lessee.ResultLease: p.Lease, lessee.ResultKubeconfigSecret: p.KubeconfigSecret, lessee.ResultAPIEndpoint: p.APIEndpoint,
		lessee.ResultOCPVersion: p.OCPVersion, lessee.ResultTopology: p.Topology, lessee.ResultExpiresAt: p.ExpiresAt,
	}[result]
}
