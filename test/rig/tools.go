//go:build tools

package rig

// Tekton's programs come from the product's own module graph, so that what the
// product and Tekton share compiles once.
import (
	_ "github.com/tektoncd/pipeline/cmd/controller"
	_ "github.com/tektoncd/pipeline/cmd/entrypoint"
	_ "github.com/tektoncd/pipeline/cmd/nop"
	_ "github.com/tektoncd/pipeline/cmd/sidecarlogresults"
	_ "github.com/tektoncd/pipeline/cmd/webhook"
	_ "github.com/tektoncd/pipeline/cmd/workingdirinit"
)
