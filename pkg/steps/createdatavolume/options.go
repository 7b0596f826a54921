package createdatavolume

import (
	"flag"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/step"
)

// Options are the step's flags.
type Options struct {
	// Instance, Namespace and InstanceUID are the ClusterInstance that owns the disk.
	Instance, Namespace, InstanceUID string
	// Name of the DataVolume.
	Name string
	// SourceNamespace and SourceVolume name the golden volume to clone; or else
	// SourceURL is the disk image to import.
	SourceNamespace, SourceVolume, SourceURL string
	// Size of the disk.
	Size string
	// StorageClass of the disk; empty is the cluster's default.
	StorageClass string
	// Timeout is how long to wait until the disk is usable.
	Timeout time.Duration
}

// Bind declares the flags.
func (o *Options) Bind(flags *flag.FlagSet) {
	flags.StringVar(&o.Instance, "instance", "", "name of the ClusterInstance")
	flags.StringVar(&o.Namespace, "namespace", "", "namespace of the ClusterInstance")
	flags.StringVar(&o.InstanceUID, "instance-uid", "", "UID of the ClusterInstance")
	flags.StringVar(&o.Name, "name", "", "name of the DataVolume")
	flags.StringVar(&o.SourceNamespace, "source-namespace", "", "namespace of the golden volume")
	flags.StringVar(&o.SourceVolume, "source-volume", "", "golden volume to clone")
	flags.StringVar(&o.SourceURL, "source-url", "", "disk image to import instead")
	flags.StringVar(&o.Size, "size", "", "size of the disk")
	flags.StringVar(&o.StorageClass, "storage-class", "", "StorageClass of the disk")
	flags.DurationVar(&o.Timeout, "timeout", 0, "how long to wait until the disk is usable")
	step.BindFailure(flags)
}

func (o *Options) validate() error {
	for _, f := range []struct{ name, value string }{
		{"instance", o.Instance}, {"namespace", o.Namespace}, {"instance-uid", o.InstanceUID}, {"name", o.Name},
	} {
		if f.value == "" {
			return step.UserError("--%s is empty", f.name)
		}
	}
	if size, err := resource.ParseQuantity(o.Size); err != nil || size.Sign() <= 0 {
		return step.UserError("size %q must be a positive quantity such as 80Gi", o.Size)
	}
	if o.Timeout <= 0 {
		return step.UserError("timeout must be a positive duration such as 20m")
	}
	return o.validateSource()
}

func (o *Options) validateSource() error {
	switch clone := o.SourceVolume != ""; {
	case clone && o.SourceURL != "":
		return step.UserError("give a volume to clone or an image to import, not both")
	case clone && o.SourceNamespace == "":
		return step.UserError("source-volume %s needs a source-namespace", o.SourceVolume)
	case clone:
		return nil
	case o.SourceURL == "":
		return step.UserError("there is nothing to make the disk from: set template.crcVersion, or template.releaseImage to the URL of a disk image")
	}
	u, err := url.Parse(o.SourceURL)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http" && u.Scheme != "docker"):
		return step.UserError("the disk image must be an https://, http:// or docker:// URL")
	case u.User != nil:
		return step.UserError("the URL of the disk image holds credentials, which all who may read the pool would see: serve it without")
	case strings.HasSuffix(u.Path, ".crcbundle"):
		return step.UserError("%s is a bundle and no disk image: set template.crcVersion, or serve the crc.qcow2 that is in it", o.SourceURL)
	}
	return nil
}

func (o *Options) owner() kube.Owner {
	return kube.Owner{Name: o.Instance, Namespace: o.Namespace, UID: types.UID(o.InstanceUID)}
}
