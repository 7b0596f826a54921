// Package catalog holds the Pipelines and Tasks from which runs are inlined:
// those of the controller's namespace and those that prepare bundles. It knows
// too whether the cluster serves what crc instances are made of. All
// reconcilers share one.
package catalog
