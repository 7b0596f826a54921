// Package builds compiles the programs that the rig runs, each from a module
// under test/rig/third_party, and keeps the results outside the tree under a
// key of everything that shapes them. It knows nothing of how they are run.
package builds
