// Package node writes the configuration of the rig's one node: containerd, its
// network, the kubelet, kube-proxy and CoreDNS. It starts nothing.
package node
