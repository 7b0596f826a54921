package instance

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"opdev.io/guestcluster/pkg/reconciler/access"
	"opdev.io/guestcluster/pkg/reconciler/catalog"
	"opdev.io/guestcluster/pkg/reconciler/clocks"
	"opdev.io/guestcluster/pkg/reconciler/probe"
)

// Config is what the reconciler needs beyond injected clients. Zero fields
// have working defaults.
type Config struct {
	// Catalog of Pipelines and Tasks; default is the one in the context.
	Catalog *catalog.Catalog
	// Access checks rights; default is the one in the context.
	Access *access.Checker
	// IngressDomain overrides the domain of the cluster's ingress configuration.
	IngressDomain string
	// Dial replaces the dialer of the default prober.
	Dial probe.DialFunc
	// NewProber replaces the default prober; notify enqueues an instance.
	NewProber func(ctx context.Context, notify func(types.NamespacedName)) probe.Prober
	// Clock is that of the context by default.
	Clock clock.Clock
	// LookForKinds is how often kinds that the cluster does not serve are looked for; default 30 s.
	LookForKinds time.Duration
}

type configKey struct{}

// WithConfig hands a Config to NewController.
func WithConfig(ctx context.Context, c Config) context.Context {
	return context.WithValue(ctx, configKey{}, c)
}

func configFrom(ctx context.Context) Config {
	c, _ := ctx.Value(configKey{}).(Config)
	if c.Clock == nil {
		c.Clock = clocks.From(ctx)
	}
	if c.LookForKinds == 0 {
		c.LookForKinds = 30 * time.Second
	}
	if c.Catalog == nil {
		c.Catalog = catalog.FromContext(ctx)
	}
	if c.Access == nil {
		c.Access = access.FromContext(ctx)
	}
	if c.NewProber == nil {
		options := probe.Options{Clock: c.Clock, Dial: c.Dial}
		c.NewProber = func(ctx context.Context, notify func(types.NamespacedName)) probe.Prober {
			return probe.Start(ctx, options, notify)
		}
	}
	return c
}
