package bundle

import (
	"flag"
	"fmt"
	"net/url"
	"path"
	"regexp"

	"k8s.io/apimachinery/pkg/api/resource"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/steps/step"
)

// mirror is where Red Hat publishes bundles, a directory for each version.
const mirror = "https://mirror.openshift.com/pub/openshift-v4/clients/crc/bundles/openshift/"

// hosts are those that publish bundles.
var hosts = []string{"mirror.openshift.com", "developers.redhat.com"}

// Source says which bundle is wanted and where from.
type Source struct {
	// Version and Arch of the bundle.
	Version, Arch string
	// BundleURL and SHA256URL override the public mirror's, SHA256 the list of checksums.
	BundleURL, SHA256URL, SHA256 string
	// CABundle is an optional file of certificates to trust besides the system's.
	CABundle string
	// MaxBundleSize bounds the download, as a quantity.
	MaxBundleSize string
}

// Bind declares the flags.
func (s *Source) Bind(flags *flag.FlagSet) {
	s.BindName(flags)
	flags.StringVar(&s.BundleURL, "bundle-url", "", "URL of the bundle; empty for the public mirror's")
	flags.StringVar(&s.CABundle, "ca-bundle", "", "optional file of certificates to trust")
	flags.StringVar(&s.MaxBundleSize, "max-bundle-size", "", "largest download that is accepted")
}

// BindName declares the flags that name a bundle.
func (s *Source) BindName(flags *flag.FlagSet) {
	flags.StringVar(&s.Version, "version", "", "version of the bundle")
	flags.StringVar(&s.Arch, "arch", "", "architecture of the bundle")
}

// BindChecksum declares the flags that say what the bundle's checksum is.
func (s *Source) BindChecksum(flags *flag.FlagSet) {
	flags.StringVar(&s.SHA256URL, "sha256-url", "", "URL of the list of checksums; empty for the one beside the bundle")
	flags.StringVar(&s.SHA256, "sha256", "", "checksum of the bundle; wins over the list")
}

var (
	versionPattern = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+([-.+][0-9a-z.-]+)?$`)
	sumPattern     = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// ValidateName checks the flags of BindName.
func (s *Source) ValidateName() error {
	if !versionPattern.MatchString(s.Version) || len(s.Version) > 40 {
		return step.UserError("version %q is not a version such as 4.19.3", s.Version)
	}
	if s.Arch != "amd64" && s.Arch != "arm64" {
		return step.UserError("arch %q is neither amd64 nor arm64", s.Arch)
	}
	return nil
}

// Validate checks all flags.
func (s *Source) Validate() error {
	if err := s.ValidateName(); err != nil {
		return err
	}
	for name, value := range map[string]string{"bundle-url": s.BundleURL, "sha256-url": s.SHA256URL} {
		if value == "" {
			continue
		}
		u, err := url.Parse(value)
		switch {
		case err == nil && u.User != nil:
			return step.UserError("%s holds credentials, which all who may read the bundle would see: serve it without", name)
		case err != nil || u.Scheme != "https" || u.Hostname() == "":
			return step.UserError("%s %q is not a URL such as https://host/path", name, value)
		}
	}
	if s.SHA256 != "" && !sumPattern.MatchString(s.SHA256) {
		return step.UserError("sha256 %q is not 64 hexadecimal digits in lower case", s.SHA256)
	}
	_, err := s.maxBytes()
	return err
}

func (s *Source) maxBytes() (int64, error) {
	size, err := resource.ParseQuantity(s.MaxBundleSize)
	if err != nil || size.Sign() <= 0 {
		return 0, step.UserError("max-bundle-size %q is not a quantity such as 20Gi", s.MaxBundleSize)
	}
	return size.Value(), nil
}

// Name is the name of the CRCBundle and of its golden volume.
func (s *Source) Name() string { return v1alpha1.BundleName(s.Version, s.Arch) }

// URL is where the bundle is.
func (s *Source) URL() string {
	if s.BundleURL != "" {
		return s.BundleURL
	}
	return mirror + fmt.Sprintf("%s/crc_libvirt_%s_%s.crcbundle", s.Version, s.Version, s.Arch)
}

// listURL is where the list of checksums is.
func (s *Source) listURL() string {
	if s.SHA256URL != "" {
		return s.SHA256URL
	}
	return sibling(s.URL(), "sha256sum.txt")
}

// fileName is the bundle's name in the list of checksums.
func (s *Source) fileName() string {
	u, err := url.Parse(s.URL())
	if err != nil {
		return ""
	}
	return path.Base(u.Path)
}

// versionsURL is where a person sees which versions there are.
func (s *Source) versionsURL() string {
	if s.BundleURL == "" {
		return mirror
	}
	return sibling(s.URL(), "")
}

// allows says whether a host may be asked: a publisher's, or one that the
// author of the bundle named in so many words.
func (s *Source) allows(host string) bool {
	for _, h := range hosts {
		if h == host {
			return true
		}
	}
	for _, given := range []string{s.BundleURL, s.SHA256URL} {
		if u, err := url.Parse(given); err == nil && given != "" && u.Hostname() == host {
			return true
		}
	}
	return false
}

// sibling is the URL of another file in the same directory, without the query.
func sibling(of, name string) string {
	u, err := url.Parse(of)
	if err != nil {
		return of
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: path.Dir(u.Path) + "/" + name}).String()
}
