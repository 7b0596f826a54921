package lessee

import (
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// Params of an acquire; a release has ParamSlot only.
const (
	ParamPool           = "pool"
	ParamPoolNamespace  = "pool-namespace"
	ParamTTL            = "ttl"
	ParamAcquireTimeout = "acquire-timeout"
	ParamPriority       = "priority"
	ParamRequestedBy    = "requested-by"
	ParamSlot           = "slot"
)

// AcquireParams and ReleaseParams are the params with their defaults. Without a
// pod there is no Task to declare them; a test holds the Tasks to the same.
func AcquireParams() map[string]string {
	return map[string]string{
		ParamPool: "", ParamPoolNamespace: "", ParamTTL: "", ParamAcquireTimeout: "50m",
		ParamPriority: "0", ParamRequestedBy: "", ParamSlot: "",
	}
}

// ReleaseParams: see AcquireParams.
func ReleaseParams() map[string]string { return map[string]string{ParamSlot: ""} }

// Order is what an acquire asks for.
type Order struct {
	// Holder is who holds the lease.
	Holder Holder
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
}

// NewOrder reads an order from params, all of AcquireParams.
func NewOrder(holder Holder, params map[string]string) (Order, *Problem) {
	holder.Slot = params[ParamSlot]
	o := Order{
		Holder: holder, Pool: params[ParamPool], PoolNamespace: params[ParamPoolNamespace],
		TTL: params[ParamTTL], RequestedBy: params[ParamRequestedBy],
	}
	var err error
	if o.AcquireTimeout, err = time.ParseDuration(params[ParamAcquireTimeout]); err != nil {
		return o, Invalid("acquire-timeout %q must be a positive duration such as 1h", params[ParamAcquireTimeout])
	}
	if o.Priority, err = strconv.Atoi(params[ParamPriority]); err != nil {
		return o, Invalid("priority %q must be a whole number", params[ParamPriority])
	}
	return o, o.Validate()
}

// Validate says what the user got wrong before anything is made.
func (o *Order) Validate() *Problem {
	if p := o.Holder.Validate(); p != nil {
		return p
	}
	ttl, p := o.ttl()
	switch {
	case p != nil:
		return p
	case o.Pool == "":
		return Invalid("param pool is empty: name a ClusterPool")
	case o.AcquireTimeout <= 0:
		return Invalid("acquire-timeout must be a positive duration such as 1h")
	case o.Holder.Bare() && ttl == nil:
		return Invalid("this run belongs to no PipelineRun whose end would free the cluster: give a ttl such as 2h")
	}
	return nil
}

func (o *Order) ttl() (*v1alpha1.Duration, *Problem) {
	if o.TTL == "" {
		return nil, nil
	}
	ttl, err := time.ParseDuration(o.TTL)
	if err != nil || ttl <= 0 {
		return nil, Invalid("ttl %q must be a positive duration such as 2h", o.TTL)
	}
	return duration(ttl), nil
}

// Lease is the lease that is ordered.
func (o *Order) Lease() *v1alpha1.ClusterLease {
	ttl, _ := o.ttl() // Validate has seen it
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

// Conflict refuses a lease of the same name that is not this holder's, or is
// on another pool.
func (o *Order) Conflict(lease *v1alpha1.ClusterLease) *Problem {
	if !o.Holder.Holds(lease) {
		return conflict("lease %s/%s exists and belongs to another holder", lease.Namespace, lease.Name)
	}
	if wanted := o.Lease().PoolKey(); lease.PoolKey() != wanted {
		return conflict("this run already has a lease on pool %s: to take one on %s too, give each acquire and release its own slot", lease.PoolKey(), wanted)
	}
	return nil
}

// UnknownParam refuses a param that nothing would read.
func UnknownParam(name string, known map[string]string) *Problem {
	var names []string
	for n := range known {
		names = append(names, n)
	}
	slices.Sort(names)
	return Invalid("param %s is unknown: there are %s", name, strings.Join(names, ", "))
}

func duration(d time.Duration) *v1alpha1.Duration {
	return &v1alpha1.Duration{Duration: metav1.Duration{Duration: d}}
}
