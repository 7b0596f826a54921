// Package publishkubeconfig ends a provisioning run: it waits until the guest
// API answers at its external address with the identity that the controller
// gave it, reads its version and fills the instance's kubeconfig Secret. Key
// material goes to that Secret and nowhere else.
package publishkubeconfig
