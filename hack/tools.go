//go:build tools

// Package hack pins the code generators that must match the product's own
// module graph; the other tools are pinned in tools.mod.
package hack

import (
	_ "k8s.io/code-generator/cmd/client-gen"
	_ "k8s.io/code-generator/cmd/deepcopy-gen"
	_ "k8s.io/code-generator/cmd/informer-gen"
	_ "k8s.io/code-generator/cmd/lister-gen"
	_ "knative.dev/pkg/codegen/cmd/injection-gen"
)
