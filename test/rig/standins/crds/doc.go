// Package crds holds the real schemas of KubeVirt and CDI that the rig serves,
// taken from their modules by the program in generate.
package crds
