// Package kubevirt plays KubeVirt: a VirtualMachine gets an instance, and the
// instance a launcher pod that runs the rig's guest from the bytes of its disk.
// decideMachine and decideInstance tell what comes next.
package kubevirt
