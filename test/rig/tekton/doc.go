// Package tekton turns the configuration in Tekton's own module into the parts
// that the rig runs: no resolvers, no events controller, no autoscaler, small
// requests and the settings that the product documents.
package tekton
