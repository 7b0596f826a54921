#!/usr/bin/env bash
# Installs Guestcluster on the rig: compiles outside (the rig has no internet),
# then ko pushes to the rig's registry and applies.
set -euo pipefail
cd "$(dirname "$0")/.."

rig=${RIG_CACHE:-$HOME/.cache/guestcluster-rig}/rig
go build -o /dev/null ./cmd/controller ./cmd/steps
"$rig" exec -- ko apply -R -f config/ -f tasks/ -f pipelines/
"$rig" exec -- kubectl -n guestcluster-system rollout status deployment/guestcluster-controller --timeout=180s
