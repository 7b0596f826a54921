package clocks

import (
	"context"

	"k8s.io/utils/clock"
)

type contextKey struct{}

// With replaces the real clock; nil keeps it.
func With(ctx context.Context, c clock.Clock) context.Context {
	if c == nil {
		return ctx
	}
	return context.WithValue(ctx, contextKey{}, c)
}

// From is the clock of With, or the real one.
func From(ctx context.Context) clock.Clock {
	if c, ok := ctx.Value(contextKey{}).(clock.Clock); ok {
		return c
	}
	return clock.RealClock{}
}
