// Package cluster plays OpenShift inside the guest: it starts the real etcd,
// API server and controller manager, and imitates the operators, the machine
// config daemon and the kubelet as far as their effects can be seen outside.
// It knows no systemd units and no network setup.
package cluster
