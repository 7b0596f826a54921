package confine

import "path/filepath"

const (
	// NodeIP is the node's address, which exists in the rig's namespace only.
	NodeIP = "10.87.0.2"
	// NodeName is the node's name in the cluster.
	NodeName = "rig"
)

// State is the folder of everything that a rig keeps.
type State string

// Path joins names to the folder.
func (s State) Path(names ...string) string {
	return filepath.Join(append([]string{string(s)}, names...)...)
}

// CgroupRoot is the cgroup of every pod, named after the folder: a kubelet
// kills what it does not know below its root, so no two may share one.
func (s State) CgroupRoot() string { return "/" + filepath.Base(string(s)) }

// mounts are the places that Kubernetes hard-codes and where the state is put
// instead, in the rig's mount namespace. They stay as empty directories:
// removing one would unmount it in every other rig.
var mounts = map[string]string{
	"/var/lib/kubelet":    "kubelet",
	"/var/lib/cni":        "cni-cache",
	"/var/log/containers": "container-logs",
}
