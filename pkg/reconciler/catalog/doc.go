// Package catalog holds the Pipelines and Tasks of the controller's namespace,
// from which provisioning runs are inlined. All reconcilers share one.
package catalog
