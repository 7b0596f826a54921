// Package rig is the root of the test rig: a real Kubernetes with Tekton on one
// Debian machine. It only pins what the rig compiles from the product's module
// graph; cmd/rig is the program and README.md its description.
package rig
