// Package standins plays what the rig cannot have: OpenShift's router, a
// provisioner of volumes (package volumes), CDI (cdi) and KubeVirt (kubevirt).
// They use the real kinds and keep to the documented contract; nothing of the
// product imports them.
package standins
