// Package lease completes claims (access Secret, Bound), ends leases for every
// reason (release, holder, ttl, timeout, lost instance) and gives instances
// back. It never chooses an instance: package binding does.
package lease
