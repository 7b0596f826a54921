// Package lessee says who holds a lease and what the lease is called. Acquire
// and release derive both from the pod that they run in, so that release needs
// nothing from acquire and a repeated acquire finds its own lease.
package lessee
