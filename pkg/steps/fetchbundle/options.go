package fetchbundle

import (
	"flag"
	"time"

	"opdev.io/guestcluster/pkg/steps/bundle"
	"opdev.io/guestcluster/pkg/steps/step"
)

// Options are the step's flags.
type Options struct {
	bundle.Source
	// Namespace of the golden volume and the boot key.
	Namespace string
	// GoldenVolume and GoldenVolumeUID are the volume that the run has locked.
	GoldenVolume, GoldenVolumeUID string
	// VolumeDir is where it is mounted, ScratchDir has room for the packed disk.
	VolumeDir, ScratchDir string
	// BundleUID is the UID of the CRCBundle that owns the boot key, if one does.
	BundleUID string
	// RunUID is the UID of the PipelineRun.
	RunUID string
	// Timeout bounds the step.
	Timeout time.Duration
	// SHA256Path is a result file.
	SHA256Path string
}

// Bind declares the flags.
func (o *Options) Bind(flags *flag.FlagSet) {
	o.Source.Bind(flags)
	o.BindChecksum(flags)
	flags.StringVar(&o.Namespace, "namespace", "", "namespace of the golden volume")
	flags.StringVar(&o.GoldenVolume, "golden-volume", "", "name of the golden volume")
	flags.StringVar(&o.GoldenVolumeUID, "golden-volume-uid", "", "UID of the golden volume")
	flags.StringVar(&o.VolumeDir, "volume-dir", "", "where the golden volume is mounted")
	flags.StringVar(&o.ScratchDir, "scratch-dir", "", "directory with room for the packed disk")
	flags.StringVar(&o.BundleUID, "bundle-uid", "", "UID of the CRCBundle")
	flags.StringVar(&o.RunUID, "run-uid", "", "UID of the PipelineRun")
	flags.DurationVar(&o.Timeout, "timeout", 0, "how long the step may take")
	flags.StringVar(&o.SHA256Path, "sha256-path", "", "result file")
	step.BindFailure(flags)
}

func (o *Options) validate() error {
	for _, f := range []struct{ name, value string }{
		{"namespace", o.Namespace}, {"golden-volume", o.GoldenVolume}, {"golden-volume-uid", o.GoldenVolumeUID},
		{"volume-dir", o.VolumeDir}, {"scratch-dir", o.ScratchDir}, {"run-uid", o.RunUID},
	} {
		if f.value == "" {
			return step.UserError("--%s is empty", f.name)
		}
	}
	if o.Timeout <= 0 {
		return step.UserError("timeout must be a positive duration such as 2h")
	}
	return o.Source.Validate()
}
