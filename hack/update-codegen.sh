#!/usr/bin/env bash
# Regenerates deep copies, clients, informers, injection code and CRDs. All
# output is committed; `make verify` runs this and requires a clean tree.
set -euo pipefail
cd "$(dirname "$0")/.."

mod=opdev.io/guestcluster
apis=$mod/pkg/apis/guestcluster/v1alpha1
header=hack/boilerplate.go.txt
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT

echo "codegen: building generators"
go build -o "$bin/" k8s.io/code-generator/cmd/{deepcopy-gen,client-gen,lister-gen,informer-gen} knative.dev/pkg/codegen/cmd/injection-gen
go build -modfile=hack/tools.mod -o "$bin/" sigs.k8s.io/controller-tools/cmd/controller-gen

rm -rf pkg/client
echo "codegen: deep copies, clients, listers, informers, injection"
"$bin/deepcopy-gen" --go-header-file $header --output-file zz_generated.deepcopy.go $apis
"$bin/client-gen" --go-header-file $header --clientset-name versioned --input-base "" --input $apis \
  --output-dir pkg/client/clientset --output-pkg $mod/pkg/client/clientset
"$bin/lister-gen" --go-header-file $header --output-dir pkg/client/listers --output-pkg $mod/pkg/client/listers $apis
"$bin/informer-gen" --go-header-file $header --versioned-clientset-package $mod/pkg/client/clientset/versioned \
  --listers-package $mod/pkg/client/listers --output-dir pkg/client/informers --output-pkg $mod/pkg/client/informers $apis
"$bin/injection-gen" --go-header-file $header --input-dirs $apis \
  --versioned-clientset-package $mod/pkg/client/clientset/versioned \
  --external-versions-informers-package $mod/pkg/client/informers/externalversions \
  --listers-package $mod/pkg/client/listers \
  --output-dir pkg/client/injection --output-package $mod/pkg/client/injection

echo "codegen: CRDs"
rm -f config/300-crds/*.yaml
"$bin/controller-gen" crd:crdVersions=v1,headerFile=/dev/null paths=./pkg/apis/guestcluster/v1alpha1 output:crd:dir=config/300-crds
