// Package controlplane knows the identities and the command lines of a
// Kubernetes control plane, the same for the rig and for tests that need an
// API server only. It starts nothing.
package controlplane
