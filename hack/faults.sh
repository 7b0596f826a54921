#!/usr/bin/env bash
# The whole proof of test/faults. The last line sums up. Arguments go to go test,
# so that a patched copy of the tree can run a part of it: hack/faults.sh -run X
set -uo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT
FAULTS=all go test -count=1 -parallel "${PARALLEL:-8}" -timeout 6h "$@" ./test/faults 2>&1 | tee "$log"
code=${PIPESTATUS[0]}
violations=$(grep -c 'invariant broken' "$log")
mutations=$(hack/mutations.sh) || code=1
[ "$code" -eq 0 ] || echo "faults: failed" >&2
echo "$(grep -h '^faults: [0-9]' "$log" | tail -1), $violations violations; $mutations"
exit "$code"
