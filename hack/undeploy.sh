#!/usr/bin/env bash
# Gives every cluster back and waits, while the controller still runs; only then
# removes the installation. Interrupted, it can be repeated.
set -euo pipefail
cd "$(dirname "$0")/.."

kubectl="${ON:-} kubectl"
if $kubectl get crd clusterleases.guestcluster.opdev.io >/dev/null 2>&1; then
  for kind in clusterleases clusterpools clusterinstances; do
    echo "undeploy: deleting all $kind and waiting"
    $kubectl delete "$kind.guestcluster.opdev.io" --all --all-namespaces --timeout=10m
  done
fi
echo "undeploy: removing the installation"
$kubectl delete --ignore-not-found --wait --timeout=5m -R -f config/ -f tasks/ -f pipelines/
echo "undeploy: done"
