#!/usr/bin/env bash
# Regenerates, tidies and lints; any difference to what is committed is an error.
set -euo pipefail
cd "$(dirname "$0")/.."

# The known bugs of hack/mutations.sh must still fit the code.
for patch in test/faults/mutations/*.patch; do
  git apply -p0 --check "$patch" || { echo "verify: make $patch anew: its code has changed" >&2; exit 1; }
done
before=$(git status --porcelain)
hack/update-codegen.sh
go mod tidy
make --no-print-directory lint
after=$(git status --porcelain)
if [ "$before" != "$after" ]; then
  git --no-pager diff --stat
  echo "verify: generated code or go.mod differs: run 'make generate' and 'go mod tidy', and commit" >&2
  exit 1
fi
echo "verify: passed"
