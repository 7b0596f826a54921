#!/usr/bin/env bash
# Proves that the suite can fail: puts each known bug of test/faults/mutations
# into a copy of the tree and runs the test that must catch it. Names of patches
# as arguments run only those. The last line sums up.
set -uo pipefail
cd "$(dirname "$0")/.."

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard | tar --null -T - -cf - | tar -xf - -C "$copy"
cd "$copy" # the tree may change meanwhile
names=("$@")
[ $# -gt 0 ] || mapfile -t names < <(basename -s .patch -a test/faults/mutations/*.patch)
caught=0
for name in "${names[@]}"; do
  patch=test/faults/mutations/$name.patch
  run=$(sed -n 's/^Run: //p' "$patch")
  began=$SECONDS
  if [ -z "$run" ] || ! git apply -p0 "$patch"; then
    echo "mutation $name: does not apply" >&2
    continue
  fi
  # All points exist only for FAULTS=all. A copy that does not compile proves nothing.
  if ! go build ./pkg/... >&2; then
    echo "mutation $name: does not compile" >&2
  elif out=$(eval "FAULTS=all go test -count=1 $run" 2>&1) || ! grep -q -e '^ *--- FAIL' <<<"$out"; then
    tail -20 <<<"$out" >&2
    echo "mutation $name: missed" >&2
  else
    caught=$((caught + 1))
    echo "mutation $name: caught in $((SECONDS - began)) s: $(grep -m1 -oE 'invariant broken.*|waited .*' <<<"$out" | cut -c1-160)" >&2
  fi
  git apply -p0 -R "$patch"
done
echo "mutations caught $caught/${#names[@]}"
[ "$caught" -eq "${#names[@]}" ]
