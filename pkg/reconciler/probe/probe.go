package probe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Target is what to probe.
type Target struct {
	// UID of what is probed, the instance or one start of its machine: results of
	// an older one are dropped.
	UID types.UID
	// Endpoint is the assigned https URL.
	Endpoint string
	// Full also makes a namespace in the guest and waits for its ServiceAccount.
	Full bool
	// Kubeconfig is read by the worker.
	Kubeconfig func(context.Context) ([]byte, error)
}

// Result is the outcome of the newest probe.
type Result struct {
	// UID of what was probed.
	UID types.UID
	// At is when the probe ended.
	At time.Time
	// Full: the namespace check was part of it.
	Full bool
	// Err says why the guest did not answer as it should; nil is success.
	Err error
	// Misses counts failed probes in a row.
	Misses int
}

// Prober probes in the background and remembers the newest result by key.
type Prober interface {
	// Request queues a probe unless one of that key is waiting or running.
	Request(key types.NamespacedName, target Target)
	// Result returns the newest result for this UID, or an empty one.
	Result(key types.NamespacedName, uid types.UID) (Result, bool)
	// Forget drops what is known of a key.
	Forget(key types.NamespacedName)
}

// errUnknown means that the probe says nothing about the guest.
var errUnknown = errors.New("probe was not made")

// probe asks one guest. An error that is no fault of the guest wraps errUnknown.
func (p *Pool) probe(ctx context.Context, target Target) error {
	kubeconfig, err := target.Kubeconfig(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnknown, err)
	}
	return Probe(ctx, kubeconfig, target.Endpoint, p.options, target.Full)
}

// Probe asks the guest at endpoint, with the credentials of a kubeconfig.
func Probe(ctx context.Context, kubeconfig []byte, endpoint string, o Options, full bool) error {
	credentials, err := Parse(kubeconfig, endpoint)
	if err != nil {
		return err
	}
	guest, err := newGuest(credentials, endpoint, o.Dial, o.Clock)
	if err != nil {
		return err
	}
	defer guest.close()
	if err := guest.version(ctx); err != nil || !full {
		return err
	}
	return guest.controllers(ctx)
}
