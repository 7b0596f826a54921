// Package lessee is what a run that takes a lease knows: who holds the lease
// and what it is called, what was ordered, how the lease stands, and what the
// run learns from it. The steps of acquire-cluster and release-cluster and the
// reconciler of CustomRuns share it, so that both say and do the same.
package lessee
