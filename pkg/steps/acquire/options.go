package acquire

import (
	"flag"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/steps/lessee"
	"opdev.io/guestcluster/pkg/steps/step"
)

// Options are the step's flags.
type Options struct {
	// Holder is who holds the lease.
	Holder lessee.Holder
	// Pool and PoolNamespace name the pool; no namespace means the lease's own.
	Pool, PoolNamespace string
	// TTL of the lease; empty leaves it to the pool.
	TTL string
	// AcquireTimeout is how long to wait for a cluster.
	AcquireTimeout time.Duration
	// Priority of the lease.
	Priority int
	// RequestedBy says who asks, for people.
	RequestedBy string
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
	o.Holder.Bind(flags)
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
	if err := o.Holder.Validate(); err != nil {
		return err
	}
	ttl, err := o.ttl()
	switch {
	case err != nil:
		return err
	case o.Pool == "":
		return step.UserError("param pool is empty: name a ClusterPool")
	case o.AcquireTimeout <= 0:
		return step.UserError("acquire-timeout must be a positive duration such as 1h")
	case o.Holder.Bare() && ttl == nil:
		return step.UserError("this TaskRun belongs to no PipelineRun whose end would free the cluster: give a ttl such as 2h")
	case o.WriteKubeconfig && o.KubeconfigDir == "":
		return step.UserError("--write-kubeconfig needs --kubeconfig-dir")
	}
	return nil
}

func (o *Options) ttl() (*v1alpha1.Duration, error) {
	if o.TTL == "" {
		return nil, nil
	}
	ttl, err := time.ParseDuration(o.TTL)
	if err != nil || ttl <= 0 {
		return nil, step.UserError("ttl %q must be a positive duration such as 2h", o.TTL)
	}
	return duration(ttl), nil
}

// newLease is the lease these options ask for.
func (o *Options) newLease() *v1alpha1.ClusterLease {
	ttl, _ := o.ttl() // validate has seen it
	return &v1alpha1.ClusterLease{
		ObjectMeta: metav1.ObjectMeta{Name: o.Holder.LeaseName(), Namespace: o.Holder.Namespace},
		Spec: v1alpha1.ClusterLeaseSpec{
			PoolRef:        v1alpha1.PoolReference{Name: o.Pool, Namespace: o.PoolNamespace},
			TTL:            ttl,
			RequestedBy:    o.RequestedBy,
			Priority:       int32(o.Priority),
			AcquireTimeout: duration(o.AcquireTimeout),
			HolderRef:      o.Holder.Ref(),
		},
	}
}

func duration(d time.Duration) *v1alpha1.Duration {
	return &v1alpha1.Duration{Duration: metav1.Duration{Duration: d}}
}
