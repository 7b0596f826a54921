// Package customrun acquires and releases for CustomRuns of kind ClusterLease
// and ClusterRelease: without a pod, an image or rights of the CI namespace on
// leases. It makes leases and reads their status like any lessee; who gets which
// cluster is the binding's business. CustomRuns of others are never written.
package customrun
