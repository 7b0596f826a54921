// Package broker tests all reconcilers together on a real API server, without
// Tekton and without guests. A test that runs in parallel has controllers that
// see its namespace only; one that needs two namespaces runs alone.
package broker
