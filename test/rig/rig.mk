# The test rig: a real Kubernetes with Tekton on this machine (test/rig/README.md).
RIG_CACHE ?= $(HOME)/.cache/guestcluster-rig
RIG := $(RIG_CACHE)/rig
export RIG_CACHE

.PHONY: rig rig-up rig-down rig-shell rig-status

rig: ## compile the rig's own program
	@CGO_ENABLED=0 go build -trimpath -buildvcs=false -o $(RIG) ./test/rig/cmd/rig

rig-up: rig ## start the rig, building what is missing
	@$(RIG) up

rig-down: rig ## stop the rig and remove its state
	@$(RIG) down

rig-shell: rig ## a shell inside the rig
	@$(RIG) exec -- bash

rig-status: rig ## show what runs in the rig
	@$(RIG) status
