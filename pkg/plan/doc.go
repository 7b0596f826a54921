// Package plan holds the decisions of the controller as pure functions: facts
// in, plan out. No clients, no clock, no context: effects are in
// pkg/reconciler.
package plan
