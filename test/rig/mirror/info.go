package mirror

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

const infoName = "crc-bundle-info.json"

// members are the names of a bundle's files, which readers must not guess.
type members struct{ disk, key, kubeconfig, oc string }

func usualMembers() members {
	return members{disk: "crc.qcow2", key: "id_ecdsa_crc", kubeconfig: "kubeconfig", oc: "oc"}
}

// info is crc-bundle-info.json in schema 1.4.
type info struct {
	Version     string      `json:"version"`
	Type        string      `json:"type"`
	Name        string      `json:"name"`
	BuildInfo   buildInfo   `json:"buildInfo"`
	ClusterInfo clusterInfo `json:"clusterInfo"`
	Nodes       []node      `json:"nodes"`
	Storage     storage     `json:"storage"`
	DriverInfo  driverInfo  `json:"driverInfo"`
	Arch        string      `json:"arch"`
}

type buildInfo struct {
	BuildTime string `json:"buildTime"`
	Installer string `json:"openshiftInstallerVersion"`
	SNC       string `json:"sncVersion"`
}

type clusterInfo struct {
	OpenShiftVersion  string `json:"openshiftVersion"`
	ClusterName       string `json:"clusterName"`
	BaseDomain        string `json:"baseDomain"`
	AppsDomain        string `json:"appsDomain"`
	SSHPrivateKeyFile string `json:"sshPrivateKeyFile"`
	KubeConfig        string `json:"kubeConfig"`
}

type node struct {
	Kind       []string `json:"kind"`
	Hostname   string   `json:"hostname"`
	DiskImage  string   `json:"diskImage"`
	InternalIP string   `json:"internalIP"`
}

type storage struct {
	DiskImages []image `json:"diskImages"`
	FileList   []file  `json:"fileList"`
}

// image and file tell sizes as text: bytes of the file, holes counted.
type image struct {
	Name   string `json:"name"`
	Format string `json:"format"`
	Size   string `json:"size"`
	SHA256 string `json:"sha256sum"`
}

type file struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Size   string `json:"size"`
	SHA256 string `json:"sha256sum"`
}

type driverInfo struct {
	Name string `json:"name"`
}

// describe returns the metadata of the unpacked bundle in dir.
func (r *recipe) describe(dir string) ([]byte, error) {
	m, o := r.members, r.Options
	diskSize, diskSum, err := measure(filepath.Join(dir, m.disk))
	if err != nil {
		return nil, err
	}
	ocSize, ocSum, err := measure(filepath.Join(dir, m.oc))
	if err != nil {
		return nil, err
	}
	doc := info{
		Version: "1.4", Type: "snc", Name: o.Name(), Arch: o.Arch,
		BuildInfo: buildInfo{
			BuildTime: o.BuildTime.UTC().Format(time.RFC3339), SNC: "git0000000",
			Installer: fmt.Sprintf("openshift-install %s\nbuilt from commit 0000000\nrelease architecture %s", o.Version, o.Arch),
		},
		ClusterInfo: clusterInfo{
			OpenShiftVersion: o.Version, ClusterName: "crc", BaseDomain: "testing", AppsDomain: "apps-crc.testing",
			SSHPrivateKeyFile: m.key, KubeConfig: m.kubeconfig,
		},
		Nodes: []node{{Kind: []string{"master", "worker"}, Hostname: "crc", DiskImage: m.disk, InternalIP: "192.168.126.11"}},
		Storage: storage{
			DiskImages: []image{{Name: m.disk, Format: "qcow2", Size: diskSize, SHA256: diskSum}},
			FileList:   []file{{Name: m.oc, Type: "oc-executable", Size: ocSize, SHA256: ocSum}},
		},
		DriverInfo: driverInfo{Name: "libvirt"},
	}
	return r.edited(doc)
}

// edited applies the recipe's changes, which may break every type.
func (r *recipe) edited(doc info) ([]byte, error) {
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil || r.edit == nil {
		return text, err
	}
	var loose map[string]any
	if err := json.Unmarshal(text, &loose); err != nil {
		return nil, err
	}
	r.edit(loose)
	return json.MarshalIndent(loose, "", "  ")
}

// measure returns a file's size and checksum as text.
func measure(name string) (size, sum string, err error) {
	f, err := os.Open(name)
	if err != nil {
		return "", "", fmt.Errorf("measure a member: %w", err)
	}
	defer f.Close()
	hash := sha256.New()
	n, err := io.Copy(hash, f)
	if err != nil {
		return "", "", fmt.Errorf("measure %s: %w", filepath.Base(name), err)
	}
	return strconv.FormatInt(n, 10), hex.EncodeToString(hash.Sum(nil)), nil
}
