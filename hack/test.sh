#!/usr/bin/env bash
# All tests in stages: without a cluster, on a real API server, on real guests, on the rig.
# The rig must be up. The last line sums up.
set -uo pipefail
cd "$(dirname "$0")/.."

sum=$(mktemp -d)
trap 'rm -rf "$sum"' EXIT
failed=
stage() { # name, then go test arguments
  local name=$1; shift
  echo "== $name"
  go tool -modfile=hack/tools.mod gotestsum --format pkgname --format-hide-empty-pkg --jsonfile "$sum/$name.json" -- -timeout 25m "$@" || failed="$failed $name"
}
stage unit ./pkg/... ./cmd/... ./tasks/... ./examples/... ./hack/... ./test/deps/... ./test/rig/...
echo "== promql" # a module of its own
(cd test/promql && go test ./...) || failed="$failed promql"
stage apiserver -count=1 -p 1 -parallel 6 ./test/cel/... ./test/broker/...
stage faults -count=1 -parallel 6 ./test/faults/...
stage guests -count=1 ./test/crc/...
if hack/rig-deploy.sh; then
  stage e2e -count=1 -p 1 -tags e2e ./test/e2e/...
else
  failed="$failed install"
fi
count() { cat "$sum"/*.json 2>/dev/null | grep '"Test":' | grep -c "\"Action\":\"$1\""; }
echo "$(count pass) passed, $(count fail) failed, $(count skip) skipped"
[ -z "$failed" ] || { echo "test: failed in:$failed" >&2; exit 1; }
