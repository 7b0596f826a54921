// Package pki makes the certificates and kubeconfig files of a test control
// plane. Files that exist are kept, so that a restart keeps its identities.
package pki
