package access

import "context"

type contextKey struct{}

// WithChecker shares one Checker among the reconcilers.
func WithChecker(ctx context.Context, c *Checker) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// FromContext returns the shared Checker, or nil.
func FromContext(ctx context.Context) *Checker {
	c, _ := ctx.Value(contextKey{}).(*Checker)
	return c
}
