// Package acquire takes a lease for the run it is part of and waits, by watch,
// until the lease is Bound. It makes or adopts the lease and reads its status;
// who gets which cluster is the controller's business. All it needs is rights
// on leases of its own namespace, and on Secrets only to write a kubeconfig file.
package acquire
