// Package v1alpha1 holds the Guestcluster kinds: ClusterPool, ClusterInstance,
// ClusterLease and CRCBundle, with their conditions, reasons and Mark methods.
// Rules that the API server can enforce stand here as CEL markers.
//
// +k8s:deepcopy-gen=package
// +groupName=guestcluster.opdev.io
package v1alpha1
