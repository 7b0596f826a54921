#!/usr/bin/env bash
# Gives every cluster back and waits, while the controller still runs; only then
# removes the installation. Interrupted, it can be repeated.
set -euo pipefail
cd "$(dirname "$0")/.."

kubectl="${ON:-} kubectl"
# An error here must stop: without the controller, finalizers stay for ever.
installed=$($kubectl get crd clusterleases.guestcluster.opdev.io --ignore-not-found -o name)
echo "undeploy: from $($kubectl config view --minify -o jsonpath='{.clusters[0].cluster.server}')"
if [ -n "$installed" ]; then
  # Pools first, without waiting: they would replace what the leases give back.
  $kubectl delete clusterpools.guestcluster.opdev.io --all --all-namespaces --wait=false
  for kind in clusterleases clusterpools clusterinstances crcbundles; do
    echo "undeploy: deleting all $kind and waiting"
    $kubectl delete "$kind.guestcluster.opdev.io" --all --all-namespaces --timeout=10m
  done
fi
echo "undeploy: removing the installation"
$kubectl delete --ignore-not-found --wait --timeout=5m -R -f config/ -f tasks/ -f pipelines/
echo "undeploy: done; yours to remove: RoleBindings to guestcluster-* roles, lessee Tasks in CI namespaces, examples"
