package builds

// KubeVersion is the Kubernetes version that third_party/kube pins; a test
// keeps the two equal.
const KubeVersion = "v1.36.3"

const componentVersion = "k8s.io/component-base/version."

// Program is one binary and how it is compiled.
type Program struct {
	Name string
	// Module is the directory to compile in, below test/rig. Its files are
	// part of the cache key.
	Module  string
	Package string
	Flags   []string
	Cgo     bool
	// Links are further names of the binary, which chooses by argv[0].
	Links []string
}

// Kube is the binary that holds the Kubernetes programs. Knative refuses a
// server without a version, hence the linker flags.
var Kube = Program{
	Name: "kube", Module: "third_party/kube", Package: ".",
	Flags: []string{"-ldflags=-s -w" +
		" -X " + componentVersion + "gitVersion=" + KubeVersion +
		" -X " + componentVersion + "gitMajor=1" +
		" -X " + componentVersion + "gitMinor=36" +
		" -X " + componentVersion + "gitTreeState=clean"},
	Links: []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"},
}

// Etcd is the etcd server.
var Etcd = Program{Name: "etcd", Module: "third_party/etcd", Package: ".", Flags: []string{"-ldflags=-s -w"}}

// CoreDNS is the DNS server with the plugins that the rig uses.
var CoreDNS = Program{Name: "coredns", Module: "third_party/coredns", Package: ".", Flags: []string{"-ldflags=-s -w"}}

// Ko builds and publishes the images of the product and of Tekton.
var Ko = Program{Name: "ko", Module: "third_party/ko", Package: "github.com/google/ko", Flags: []string{"-ldflags=-s -w"}}

// Containerd and Shim are the container runtime.
var (
	Containerd = containerd("containerd")
	Shim       = containerd("containerd-shim-runc-v2")
)

// Pause is the program of every pod's sandbox.
var Pause = Program{Name: "pause", Module: "cmd/pause", Package: ".", Flags: []string{"-ldflags=-s -w"}}

// Runc starts containers. Every pod needs its seccomp support, and that is C.
var Runc = Program{
	Name: "runc", Module: "third_party/node", Package: "github.com/opencontainers/runc",
	Flags: []string{"-tags=seccomp", "-ldflags=-s -w"}, Cgo: true,
}

func containerd(name string) Program {
	return Program{
		Name: name, Module: "third_party/node", Package: "github.com/containerd/containerd/v2/cmd/" + name,
		Flags: []string{"-tags=no_btrfs,no_devmapper,no_zfs", "-ldflags=-s -w"},
	}
}
