// Command rig starts and stops a real Kubernetes with Tekton on one Debian
// machine, for make targets (rig.mk) and by hand; README.md describes it.
package main
