package main

import (
	"context"
	"fmt"
	"path/filepath"

	"opdev.io/guestcluster/test/rig/builds"
	"opdev.io/guestcluster/test/rig/confine"
	"opdev.io/guestcluster/test/rig/mirror"
	"opdev.io/guestcluster/test/rig/node"
)

func service(binary string, args []string, env ...string) confine.Service {
	return confine.Service{Name: args[0], Path: binary, Args: args, Env: env}
}

func (r *rig) startControlPlane(ctx context.Context, c *compiling) error {
	etcd, err := c.program(ctx, builds.Etcd)
	if err != nil {
		return err
	}
	kube, err := c.program(ctx, builds.Kube)
	if err != nil {
		return err
	}
	if err := r.link(kube, builds.Kube.Links...); err != nil {
		return err
	}
	if err := r.link(etcd, "etcd"); err != nil {
		return err
	}
	r.log("start the control plane")
	return r.state.Run(
		service(etcd, r.plan.EtcdArgs()),
		service(kube, r.plan.APIServerArgs()),
		service(kube, r.plan.ControllerManagerArgs(r.config("controllers.kubeconfig"))),
		service(kube, r.plan.SchedulerArgs(r.config("scheduler.kubeconfig"))))
}

func (r *rig) startNode(ctx context.Context, c *compiling) error {
	programs := map[string]string{}
	for _, p := range []builds.Program{builds.Kube, builds.Containerd, builds.Shim, builds.Runc, builds.CoreDNS} {
		file, err := c.program(ctx, p)
		if err != nil {
			return err
		}
		programs[p.Name] = file
	}
	if err := node.Write(r.values(programs["runc"])); err != nil {
		return err
	}
	kube, dns := programs["kube"], programs["coredns"]
	path := fmt.Sprintf("PATH=%s:%s:/usr/sbin:/usr/bin:/sbin:/bin",
		filepath.Dir(programs["containerd-shim-runc-v2"]), filepath.Dir(programs["runc"]))
	r.log("start the node")
	return r.state.Run(
		service(programs["containerd"], []string{"containerd", "--config=" + r.config("containerd.toml")}, path),
		service(kube, []string{
			"kubelet", "--config=" + r.config("kubelet.yaml"), "--kubeconfig=" + r.config("node.kubeconfig"),
			"--hostname-override=" + confine.NodeName, "--node-ip=" + confine.NodeIP, "--root-dir=/var/lib/kubelet",
		}, path),
		service(kube, []string{"kube-proxy", "--config=" + r.config("proxy.yaml")}, path),
		service(dns, []string{"coredns", "-conf=" + r.config("Corefile")}, "COREFILE="+sum(r.config("Corefile"))))
}

func (r *rig) values(runc string) node.Values {
	return node.Values{
		State: r.state, NodeIP: confine.NodeIP, NodeName: confine.NodeName, CgroupRoot: r.state.CgroupRoot(),
		Registry: registryAddress, PauseImage: pauseImage, Runc: runc, IngressDomain: ingressDomain,
		MirrorIP: mirror.Address, MirrorHosts: mirror.Hosts,
	}
}

func (r *rig) config(name string) string { return r.state.Path("config", name) }
