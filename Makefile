# Guestcluster: `make demo` and `make test` set everything up by themselves.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# One set of flags for product, ko, rig and tests: they share one build cache.
export GOFLAGS := -buildvcs=false -trimpath
export CGO_ENABLED := 0

include test/rig/rig.mk

# What installs: the current cluster by default, the rig with ON="$(RIG) exec --".
ON ?=
STARTED := $(shell date +%s)
KO ?= ko
# What make demo shows: crc, or custom.
TOPOLOGY ?= crc
MANIFESTS := -R -f config/ -f tasks/ -f pipelines/
TOOL := go tool -modfile=hack/tools.mod

.PHONY: help build generate fmt lint test unit faults soak e2e verify bench demo deploy undeploy rig-deploy tekton-bundle

help: ## show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18 | sort

build: ## compile everything
	go build ./...

generate: ## regenerate clients, deep copies and CRDs
	hack/update-codegen.sh

fmt: ## format the sources
	gofmt -w $$(git ls-files '*.go')

lint: ## vet, staticcheck and format
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "lint: run make fmt"; exit 1; }
	go vet -tags e2e ./...
	$(TOOL) staticcheck -tags e2e $$(go list -tags e2e ./... | grep -v /pkg/client/)

verify: ## regenerate and lint, and require that nothing changed
	hack/verify.sh

test: rig-up ## set everything up and run all tests
	hack/test.sh

unit: ## only the tests that need no cluster
	$(TOOL) gotestsum --format-hide-empty-pkg -- ./pkg/... ./cmd/... ./tasks/... ./examples/... ./hack/... ./test/deps/...

faults: ## the whole proof that nothing leaks, is booked twice or gets stuck: every call and every event fails once
	hack/faults.sh

soak: ## random traces for SOAK, 10m by default
	FAULTS=all SOAK=$(or $(SOAK),10m) go test -count=1 -timeout 24h -run TestRandomTraces ./test/faults

e2e: rig-deploy ## only the tests on the rig
	$(TOOL) gotestsum --format-hide-empty-pkg -- -count=1 -tags e2e -timeout 20m ./test/e2e/...

bench: ## print speeds; asserts nothing
	go test -run '^$$' -bench . -benchmem ./pkg/plan/... ./pkg/runs/...

demo: rig-up rig-deploy ## the main job: a CI pipeline leases a cluster, tests on it, gives it back; TOPOLOGY=custom is the quick one
	@go run ./test/demo -started $(STARTED) -topology $(TOPOLOGY)

deploy: ## install on the current cluster
	@$(ON) bash -c 'command -v $(KO)' >/dev/null || { echo "deploy: ko is missing: go install github.com/google/ko@v0.19.1; for the rig use make rig-deploy"; exit 2; }
	$(ON) $(KO) apply $(MANIFESTS)

rig-deploy: rig-up ## install on the rig
	@hack/rig-deploy.sh

undeploy: ## give every cluster back, wait, then remove the installation
	ON="$(ON)" hack/undeploy.sh

tekton-bundle: ## push acquire-cluster and release-cluster as a Tekton bundle to BUNDLE=registry/repo:tag
	@test -n "$(BUNDLE)" || { echo "usage: make tekton-bundle BUNDLE=registry/repo:tag"; exit 2; }
	$(ON) bash -o pipefail -c '$(KO) resolve -f tasks/lessee | go run ./hack/tekton-bundle $(BUNDLE_FLAGS) $(BUNDLE)'
