// Package pool keeps a ClusterPool's supply: it creates and deletes unclaimed
// instances as plan.Pool decides. It never binds a lease.
package pool
