// Package bootvm is the step that boots an instance's guest: it makes the
// VirtualMachine for the disk of the same name and waits until the disk is
// filled, the machine runs and KubeVirt knows its address. What happens inside
// the guest is not its business.
package bootvm
