package fetchbundle

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/steps/bundle"
	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/step"
)

// Fetcher is the step.
type Fetcher struct {
	Options
	Volumes  *bundle.Volumes
	Progress io.Writer
	// Pause is the back-off between tries.
	Pause wait.Backoff
	// Now is the clock.
	Now func() time.Time
	// Dial reaches the mirror; nil is the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Command is the step as a subcommand.
func Command() step.Command {
	return step.Command{
		Name:  "fetch-bundle",
		Short: "download a bundle, check it and write its disk to the golden volume",
		New: func(flags *flag.FlagSet, progress io.Writer) step.Runner {
			f := &Fetcher{Progress: progress, Pause: step.Backoff(), Now: time.Now}
			f.Bind(flags)
			return kube.Connected(f, f.connect)
		},
	}
}

func (f *Fetcher) connect(config *rest.Config) (err error) {
	f.Volumes, err = bundle.NewVolumes(config, f.Namespace)
	return err
}

// Run fills the volume and the Secret and writes the result.
func (f *Fetcher) Run(ctx context.Context) error {
	if err := f.validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, f.Timeout)
	defer cancel()
	claim, err := f.claim(ctx)
	if err != nil {
		return err
	}
	sum := claim.Annotations[guestcluster.BundleSHA256Annotation]
	if bundle.Sealed(claim) {
		fmt.Fprintf(f.Progress, "golden volume %s/%s is complete already\n", f.Namespace, claim.Name)
	} else if sum, err = f.fill(ctx); err != nil {
		return err
	}
	return step.WriteResults(step.Result{Path: f.SHA256Path, Value: sum})
}

func (f *Fetcher) claim(ctx context.Context) (claim *corev1.PersistentVolumeClaim, err error) {
	err = step.Retry(ctx, f.Pause, f.Progress, func(ctx context.Context) (err error) {
		claim, err = f.Volumes.Mine(ctx, f.GoldenVolume, f.GoldenVolumeUID, f.RunUID)
		return err
	})
	return claim, err
}

// fill does all of it anew, whatever a killed pod left. The disk comes first,
// for the Secret tells publish-bundle that it is there.
func (f *Fetcher) fill(ctx context.Context) (sum string, err error) {
	volume := volume{f.VolumeDir}
	if err := volume.clean(); err != nil {
		return "", err
	}
	scratch, err := os.OpenFile(filepath.Join(f.ScratchDir, "disk.qcow2"), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return "", step.InfraError("make scratch file: %w", err)
	}
	defer scratch.Close()
	defer os.Remove(scratch.Name())
	members, sum, err := f.download(ctx, scratch)
	if err != nil {
		return "", err
	}
	if err := checkKey(members); err != nil {
		return "", err
	}
	if err := f.convert(ctx, scratch, volume); err != nil {
		return "", err
	}
	return sum, f.keepKey(ctx, members, sum)
}

// download fills the scratch file from the network. Only the checksum tells a
// bundle from anything else, so it decides before all other complaints.
func (f *Fetcher) download(ctx context.Context, scratch *os.File) (*bundle.Members, string, error) {
	mirror, err := bundle.NewMirror(f.Source, f.Progress, f.Pause, f.Now, f.Dial)
	if err != nil {
		return nil, "", err
	}
	want, err := mirror.Checksum(ctx)
	if err != nil {
		return nil, "", err
	}
	fmt.Fprintf(f.Progress, "downloading %s, SHA-256 %s\n", f.URL(), want)
	download := mirror.Open(ctx)
	defer download.Close()
	members, unpacked := unpack(download, &f.Source, scratch)
	if unpacked != nil && download.Err() == nil && !bundle.IsDamaged(unpacked) {
		return nil, "", unpacked
	}
	sum, err := download.Sum()
	switch {
	case err != nil:
		return nil, "", err
	case sum != want:
		return nil, "", bundle.Mismatch(download.URL(), sum, want)
	case unpacked != nil:
		return nil, "", step.UserError("%s is no bundle although its checksum is right: %w", download.URL(), unpacked)
	}
	fmt.Fprintf(f.Progress, "checksum is right\n")
	return members, sum, nil
}

func unpack(source io.Reader, wanted *bundle.Source, disk bundle.Disk) (*bundle.Members, error) {
	archive, err := bundle.OpenArchive(source)
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	return bundle.Unpack(archive, wanted, disk)
}
