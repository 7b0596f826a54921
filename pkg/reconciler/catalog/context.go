package catalog

import "context"

type contextKey struct{}

// WithCatalog shares one Catalog among the reconcilers.
func WithCatalog(ctx context.Context, c *Catalog) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// FromContext returns the shared Catalog, or nil.
func FromContext(ctx context.Context) *Catalog {
	c, _ := ctx.Value(contextKey{}).(*Catalog)
	return c
}
