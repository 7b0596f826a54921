// Package release tells the lease of the run it is part of to give its cluster
// back. It needs no result of acquire, and finding nothing to release is
// success: the controller frees every lease when its holder ends, a release
// only makes that earlier.
package release
