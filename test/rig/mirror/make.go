package mirror

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
)

// Files of a finished bundle's folder besides those that are published.
const (
	// DiskName is the disk as it is in the bundle, for pools of a disk's URL.
	DiskName = "crc.qcow2"
	// KeyName is the bundle's SSH key.
	KeyName = "id_ecdsa_crc"
)

// recipe is how a bundle is made. What is odd about one is changed here.
type recipe struct {
	Options
	members members
	// tar and compress are the packers' arguments.
	tar, compress []string
	// laid changes the folder before its metadata is written, edit the metadata,
	// unpacked the folder before it is packed, packed the bundle before its
	// checksum is taken, and published the result.
	laid      func(dir string) error
	edit      func(info map[string]any)
	unpacked  func(dir string) error
	packed    func(bundle string) error
	published func(dir string) error
}

func newRecipe(o Options) *recipe {
	return &recipe{
		Options: o, members: usualMembers(), tar: []string{"cSf", "-"},
		compress: []string{
			"zstd", "--quiet", "--ultra", "-" + strconv.Itoa(o.Level), "--long=" + strconv.Itoa(window), "--threads=0",
		},
	}
}

func (r *recipe) log(format string, args ...any) { r.Options.log(format, args...) }

// Make returns a folder with the bundle, its checksums with signature, and the
// disk and key that are in it: from cacheDir, or made now. The parts' disk must
// not change after that without a change of its time.
func Make(ctx context.Context, cacheDir string, parts Parts, o Options) (string, error) {
	o = o.withDefaults()
	if o.BuildTime.IsZero() {
		about, err := os.Stat(parts.Disk)
		if err != nil {
			return "", fmt.Errorf("look at the disk: %w", err)
		}
		o.BuildTime = about.ModTime().Truncate(time.Second)
	}
	disk, err := diskKey(parts.Disk)
	if err != nil {
		return "", err
	}
	key, err := bundleKey(disk, parts, o)
	if err != nil {
		return "", err
	}
	dir, err := ensure(filepath.Join(cacheDir, o.Name()+"-"+key), func(tmp string) error {
		return newRecipe(o).build(ctx, cacheDir, parts, tmp)
	})
	if err != nil {
		return "", fmt.Errorf("make bundle %s: %w", o.Name(), err)
	}
	return dir, prune(cacheDir, time.Now())
}

// build makes the bundle in dir.
func (r *recipe) build(ctx context.Context, cacheDir string, parts Parts, dir string) error {
	disk, err := convert(ctx, cacheDir, parts.Disk, r.log)
	if err != nil {
		return err
	}
	signer, err := loadSigner(cacheDir)
	if err != nil {
		return err
	}
	work := filepath.Join(dir, "work")
	if err := r.unpack(filepath.Join(work, r.Name()), disk, parts); err != nil {
		return err
	}
	bundle := filepath.Join(dir, r.File())
	if err := r.pack(ctx, work, r.Name(), bundle); err != nil {
		return err
	}
	return errors.Join(
		os.RemoveAll(work), os.Link(disk, filepath.Join(dir, DiskName)),
		copyFile(filepath.Join(dir, KeyName), parts.SSHPrivateKey, 0o400),
		r.publish(dir, bundle, signer))
}

// unpack lays out what the archive will hold. The disk is only linked.
func (r *recipe) unpack(dir, disk string, parts Parts) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("lay out the bundle: %w", err)
	}
	err := errors.Join(
		os.Link(disk, filepath.Join(dir, r.members.disk)),
		copyFile(filepath.Join(dir, r.members.key), parts.SSHPrivateKey, 0o400),
		copyFile(filepath.Join(dir, r.members.kubeconfig), parts.Kubeconfig, 0o644),
		copyFile(filepath.Join(dir, r.members.oc), parts.OC, 0o755))
	if err = errors.Join(err, change(r.laid, dir)); err != nil {
		return err
	}
	text, err := r.describe(dir)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, infoName), text, 0o644); err != nil {
		return fmt.Errorf("write the metadata: %w", err)
	}
	return change(r.unpacked, dir)
}

func change(how func(string) error, name string) error {
	if how == nil {
		return nil
	}
	return how(name)
}

func (r *recipe) publish(dir, bundle string, signer *openpgp.Entity) error {
	if err := change(r.packed, bundle); err != nil {
		return err
	}
	if err := writeLists(dir, r.Options, signer); err != nil {
		return err
	}
	return change(r.published, dir)
}
