// Package metrics counts transitions and observes what exists, on the meter
// that knative.dev/pkg exports (config-observability). A transition is counted
// after the guarded write that made it: a crash may lose one, none counts
// twice. What exists is read from the informers at each collection.
package metrics
