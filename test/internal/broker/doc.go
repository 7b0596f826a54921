// Package broker runs the product's controllers inside a test against a real
// API server, with stand-ins for Tekton and the guests, and records what
// happens to instances. It holds no assertion about a single feature.
package broker
