package bundle

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"opdev.io/guestcluster/pkg/steps/step"
)

// InfoName is the member that describes a bundle.
const InfoName = "crc-bundle-info.json"

// Info is what a bundle tells about itself, checked.
type Info struct {
	// OCPVersion is the OpenShift version in the bundle.
	OCPVersion string
	// BuildTime is RFC 3339, or empty if the bundle tells none that is readable.
	BuildTime string
	// Disk, Key and Kubeconfig name members of the archive.
	Disk, Key, Kubeconfig string
	// DiskSize is the size of the disk's file, holes counted.
	DiskSize int64
}

// document is crc-bundle-info.json as far as it matters.
type document struct {
	Version   string `json:"version"`
	Type      string `json:"type"`
	Name      string `json:"name"`
	Arch      string `json:"arch"`
	BuildInfo struct {
		BuildTime string `json:"buildTime"`
	} `json:"buildInfo"`
	ClusterInfo struct {
		OpenShiftVersion  string `json:"openshiftVersion"`
		ClusterName       string `json:"clusterName"`
		BaseDomain        string `json:"baseDomain"`
		AppsDomain        string `json:"appsDomain"`
		SSHPrivateKeyFile string `json:"sshPrivateKeyFile"`
		KubeConfig        string `json:"kubeConfig"`
	} `json:"clusterInfo"`
	Storage struct {
		DiskImages []struct {
			Name   string `json:"name"`
			Format string `json:"format"`
			Size   string `json:"size"`
		} `json:"diskImages"`
	} `json:"storage"`
	DriverInfo struct {
		Name string `json:"name"`
	} `json:"driverInfo"`
}

var (
	schemaPattern = regexp.MustCompile(`^1(\.[0-9]+){1,2}$`)
	memberPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
)

// ParseInfo reads crc-bundle-info.json and checks that the bundle is the one
// that was asked for and of a kind that boots on KubeVirt.
func ParseInfo(raw []byte, source *Source) (*Info, error) {
	doc := &document{}
	if err := json.Unmarshal(raw, doc); err != nil {
		var mistyped *json.UnmarshalTypeError
		if errors.As(err, &mistyped) {
			return nil, step.UserError("%s: field %s is a %s, not a %s", InfoName, mistyped.Field, mistyped.Value, mistyped.Type)
		}
		return nil, step.UserError("%s: %w", InfoName, err)
	}
	for _, check := range []func(*document, *Source) error{checkKind, checkCluster, checkNames} {
		if err := check(doc, source); err != nil {
			return nil, err
		}
	}
	disk := doc.Storage.DiskImages[0]
	bytes, err := strconv.ParseInt(disk.Size, 10, 64)
	if err != nil || bytes <= 0 {
		return nil, refuse("storage.diskImages[0].size", disk.Size, "a number of bytes")
	}
	return &Info{
		OCPVersion: doc.ClusterInfo.OpenShiftVersion, BuildTime: buildTime(doc.BuildInfo.BuildTime),
		Disk: disk.Name, Key: doc.ClusterInfo.SSHPrivateKeyFile, Kubeconfig: doc.ClusterInfo.KubeConfig, DiskSize: bytes,
	}, nil
}

func refuse(field, got, want string) error {
	return step.UserError("%s: %s is %q, not %s", InfoName, field, got, want)
}

// checkKind looks at what decides whether the disk boots at all. Schemas before
// 1.4 tell the architecture only in the bundle's name.
func checkKind(doc *document, source *Source) error {
	arch := doc.Arch
	if arch == "" {
		for _, field := range strings.Split(doc.Name, "_") {
			if field == "amd64" || field == "arm64" {
				arch = field
			}
		}
	}
	switch {
	case !schemaPattern.MatchString(doc.Version):
		return refuse("version", doc.Version, "1.x")
	case strings.TrimSuffix(doc.Type, "_custom") != "snc":
		return refuse("type", doc.Type, "snc: only bundles of preset openshift are supported")
	case arch != source.Arch:
		return refuse("arch", arch, source.Arch+" as asked for")
	case doc.DriverInfo.Name != "libvirt":
		return refuse("driverInfo.name", doc.DriverInfo.Name, "libvirt: take the libvirt bundle")
	}
	return nil
}

// checkCluster looks at the names that are built into the disk's certificates.
func checkCluster(doc *document, source *Source) error {
	c := doc.ClusterInfo
	switch {
	case c.OpenShiftVersion != source.Version:
		return refuse("clusterInfo.openshiftVersion", c.OpenShiftVersion, source.Version+" as asked for")
	case c.ClusterName+"."+c.BaseDomain != "crc.testing":
		return refuse("clusterInfo.clusterName and baseDomain", c.ClusterName+"."+c.BaseDomain, "crc.testing")
	case c.AppsDomain != "apps-crc.testing" && c.AppsDomain != "apps.crc.testing":
		return refuse("clusterInfo.appsDomain", c.AppsDomain, "apps-crc.testing")
	}
	return nil
}

// checkNames wants plain names, each of another member.
func checkNames(doc *document, _ *Source) error {
	disks := doc.Storage.DiskImages
	switch {
	case len(disks) != 1:
		return step.UserError("%s: storage.diskImages has %d entries, not 1", InfoName, len(disks))
	case disks[0].Format != "qcow2":
		return refuse("storage.diskImages[0].format", disks[0].Format, "qcow2")
	}
	seen := []string{InfoName}
	for _, f := range []struct{ field, name string }{
		{"storage.diskImages[0].name", disks[0].Name},
		{"clusterInfo.sshPrivateKeyFile", doc.ClusterInfo.SSHPrivateKeyFile},
		{"clusterInfo.kubeConfig", doc.ClusterInfo.KubeConfig},
	} {
		if !memberPattern.MatchString(f.name) || slices.Contains(seen, f.name) {
			return refuse(f.field, f.name, "the plain name of a file of its own")
		}
		seen = append(seen, f.name)
	}
	return nil
}

// buildTime is lenient: bundles that `crc bundle generate` made have Go's way
// of printing a time, with its monotonic clock.
func buildTime(text string) string {
	plain, _, _ := strings.Cut(text, " m=")
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05.999999999 -0700 MST", "2006-01-02 15:04:05 -0700"} {
		if at, err := time.Parse(layout, plain); err == nil {
			return at.UTC().Format(time.RFC3339)
		}
	}
	return ""
}
