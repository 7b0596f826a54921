// Package standins plays what the rig cannot have: OpenShift's router and the
// provisioner of volumes. They use the real kinds and keep to the documented
// contract; nothing of the product imports them.
package standins
