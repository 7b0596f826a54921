// Package binding pairs waiting leases with available instances, one pass for
// each event of a pool. For every pair it writes the lease's instanceRef, then
// the instance's claimRef; package lease completes what a crash left half done.
package binding
