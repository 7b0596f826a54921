// Package steps is the table of the step image's subcommands. Each step has a
// package of its own below this one; what they share is in step, kube and
// lessee. Nothing here knows Tekton: the YAML in tasks/ hands over values as
// flags and takes results from the paths it gave.
package steps
