package image

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/crypto/ssh"

	"opdev.io/guestcluster/test/rig/builds"
	"opdev.io/guestcluster/test/rig/guest/cluster"
)

// parked is a directory with files.tar (the cluster's state), kubeconfig,
// id_ecdsa_crc and id_ecdsa_crc.pub.
type parked struct{ dir string }

func (p parked) file(name string) string { return filepath.Join(p.dir, name) }

// parked returns the state of a cluster that was installed, used and stopped.
func (b *builder) parked(ctx context.Context) (parked, error) {
	kube, err := b.programs.Ensure(ctx, builds.Kube)
	if err != nil {
		return parked{}, err
	}
	etcd, err := b.programs.Ensure(ctx, builds.Etcd)
	if err != nil {
		return parked{}, err
	}
	sources, err := b.sources("image", "cluster", "certs")
	if err != nil {
		return parked{}, err
	}
	result := parked{b.path("parked", digest(filepath.Base(kube), filepath.Base(etcd), sources, crdModule), "")}
	if exists(result.dir) {
		return result, nil
	}
	start := time.Now()
	b.log("park a cluster")
	making := parked{result.dir + partialSuffix}
	if err := errors.Join(os.RemoveAll(making.dir), os.MkdirAll(making.dir, 0o755)); err != nil {
		return parked{}, err
	}
	if err := b.park(ctx, making, filepath.Join(kube, "kube"), filepath.Join(etcd, "etcd")); err != nil {
		return parked{}, fmt.Errorf("park a cluster: %w", err)
	}
	b.log("parked a cluster in %s", time.Since(start).Round(time.Second))
	return result, os.Rename(making.dir, result.dir)
}

func (b *builder) park(ctx context.Context, p parked, kube, etcd string) error {
	public, err := makeSSHKey(p.file("id_ecdsa_crc"))
	if err != nil {
		return err
	}
	tree := p.file("tree")
	root := cluster.Root(tree)
	kubeconfig, adminCA, err := root.MakeIdentities()
	if err != nil {
		return err
	}
	err = errors.Join(
		os.WriteFile(p.file("id_ecdsa_crc.pub"), []byte(public), 0o644),
		os.WriteFile(p.file("kubeconfig"), kubeconfig, 0o600),
		write(tree, file{"opt/kubeconfig", 0o644, string(kubeconfig)}),
		root.WriteControlPlaneKubeconfig("https://localhost:6443"))
	if err != nil {
		return err
	}
	crds, err := b.crds(ctx)
	if err != nil {
		return err
	}
	content := cluster.Content{CRDs: crds, AdminCA: string(adminCA), CoreKey: public}
	if err := cluster.Park(ctx, root, kube, etcd, p.file("log"), content); err != nil {
		return err
	}
	return errors.Join(b.pack(ctx, p.file("files.tar"), tree), os.RemoveAll(tree))
}

// makeSSHKey writes a key as CRC bundles have it: ECDSA P-521, OpenSSH format.
func makeSSHKey(file string) (public string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		return "", fmt.Errorf("make core's key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(key, "core@crc")
	if err != nil {
		return "", fmt.Errorf("encode core's key: %w", err)
	}
	encoded, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		return "", fmt.Errorf("encode core's key: %w", err)
	}
	return string(ssh.MarshalAuthorizedKey(encoded)), os.WriteFile(file, pem.EncodeToMemory(block), 0o400)
}
