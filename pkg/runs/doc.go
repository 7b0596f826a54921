// Package runs is the Tekton contract: it is the only Go that knows the
// params, results and timeouts of provisioning Pipelines. It builds
// PipelineRuns, validates Pipelines and reads outcomes; it is pure and holds
// no client.
package runs
