// Package rigtest drives a running rig for the demo and the end-to-end tests:
// clients, applying of manifests, waiting with a reason when it takes too long.
package rigtest
