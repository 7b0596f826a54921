// Package apiserver gives Go tests a real API server: etcd and kube-apiserver
// on free loopback ports, with RBAC and OwnerReferencesPermissionEnforcement,
// gone when the test process is. No pod ever runs on it.
package apiserver
