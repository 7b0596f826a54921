package creategoldenvolume

import (
	"flag"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"opdev.io/guestcluster/pkg/steps/bundle"
	"opdev.io/guestcluster/pkg/steps/step"
)

// Options are the step's flags.
type Options struct {
	bundle.Source
	// Namespace of the golden volume.
	Namespace string
	// StorageClass and GoldenVolumeSize of the volume; empty for the cluster's
	// default, and for what the disk needs.
	StorageClass, GoldenVolumeSize string
	// BundleUID is the UID of the CRCBundle that owns the volume, if one does.
	BundleUID string
	// RunName and RunUID tell the PipelineRun, which locks the volume.
	RunName, RunUID string
	// Timeout bounds the step.
	Timeout time.Duration
	// GoldenVolumePath and GoldenVolumeUIDPath are result files.
	GoldenVolumePath, GoldenVolumeUIDPath string
}

// Bind declares the flags.
func (o *Options) Bind(flags *flag.FlagSet) {
	o.Source.Bind(flags)
	flags.StringVar(&o.SHA256, "sha256", "", "checksum of the bundle, if it is known")
	flags.StringVar(&o.Namespace, "namespace", "", "namespace of the golden volume")
	flags.StringVar(&o.StorageClass, "storage-class", "", "storage class of the golden volume")
	flags.StringVar(&o.GoldenVolumeSize, "golden-volume-size", "", "size of the golden volume")
	flags.StringVar(&o.BundleUID, "bundle-uid", "", "UID of the CRCBundle")
	flags.StringVar(&o.RunName, "run-name", "", "name of the PipelineRun")
	flags.StringVar(&o.RunUID, "run-uid", "", "UID of the PipelineRun")
	flags.DurationVar(&o.Timeout, "timeout", 0, "how long the step may take")
	flags.StringVar(&o.GoldenVolumePath, "golden-volume-path", "", "result file")
	flags.StringVar(&o.GoldenVolumeUIDPath, "golden-volume-uid-path", "", "result file")
	step.BindFailure(flags)
}

func (o *Options) validate() error {
	for _, f := range []struct{ name, value string }{{"namespace", o.Namespace}, {"run", o.RunName}, {"run-uid", o.RunUID}} {
		if f.value == "" {
			return step.UserError("--%s is empty", f.name)
		}
	}
	if o.Timeout <= 0 {
		return step.UserError("timeout must be a positive duration such as 10m")
	}
	if o.GoldenVolumeSize != "" {
		if q, err := resource.ParseQuantity(o.GoldenVolumeSize); err != nil || q.Sign() <= 0 {
			return step.UserError("golden-volume-size %q is not a quantity such as 35Gi", o.GoldenVolumeSize)
		}
	}
	return o.Source.Validate()
}
