// Package probe asks guest API servers whether they answer, off the threads of
// the reconcilers. A kubeconfig comes from a guest and is not trusted: only
// certificates, keys and tokens are taken from it, never an address, a file,
// a command or a proxy.
package probe
