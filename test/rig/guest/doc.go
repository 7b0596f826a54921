// Package guest builds and runs the guest that plays an OpenShift Local (CRC)
// virtual machine: a partitioned disk with a real sshd, etcd and API server,
// parked as a CRC bundle is. It knows nothing of KubeVirt or of bundles' files.
package guest
