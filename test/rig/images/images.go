package images

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	nonroot = "65532:65532"
	passwd  = "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin\n"
	group   = "root:x:0:\nnonroot:x:65532:\n"
	bundle  = "etc/ssl/certs/ca-certificates.crt"
)

// file is an entry of a layer; without source it holds data.
type file struct {
	path   string
	mode   fs.FileMode
	data   []byte
	source string
}

// Base returns the image that every other stands on: certificates, users, a
// writable /tmp, and a numeric user as OpenShift and Pod Security ask for.
func Base() (v1.Image, error) {
	certificates, err := os.ReadFile("/" + bundle)
	if err != nil {
		return nil, fmt.Errorf("read the certificate bundle: %w (install ca-certificates)", err)
	}
	return build(empty.Image, v1.Config{User: nonroot, Env: []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/ko-app",
		"SSL_CERT_FILE=/" + bundle,
	}}, []file{
		{path: "etc/passwd", mode: 0o644, data: []byte(passwd)},
		{path: "etc/group", mode: 0o644, data: []byte(group)},
		{path: bundle, mode: 0o644, data: certificates},
		{path: "tmp/", mode: 0o1777},
	})
}

// Pause returns the image of pod sandboxes; program is a static binary.
func Pause(program string) (v1.Image, error) {
	config := v1.Config{User: nonroot, Entrypoint: []string{"/pause"}}
	return build(empty.Image, config, []file{{path: "pause", mode: 0o755, source: program}})
}

// Guest returns an image that runs a Kubernetes API in one pod: the binary of
// the Kubernetes programs under the name of each, and etcd.
func Guest(base v1.Image, kube, etcd string, links []string) (v1.Image, error) {
	config, err := base.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the base image: %w", err)
	}
	files := []file{
		{path: "usr/local/bin/kube", mode: 0o755, source: kube},
		{path: "usr/local/bin/etcd", mode: 0o755, source: etcd},
	}
	for _, link := range links {
		files = append(files, file{path: "usr/local/bin/" + link, mode: fs.ModeSymlink | 0o777, data: []byte("kube")})
	}
	return build(base, config.Config, files)
}

// Launcher returns the image of virtual machines' pods; program is a static
// binary that brings all it needs.
func Launcher(program string) (v1.Image, error) {
	config := v1.Config{Entrypoint: []string{"/launcher"}, Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}}
	return build(empty.Image, config, []file{
		{path: "launcher", mode: 0o755, source: program},
		{path: "tmp/", mode: 0o1777},
	})
}

// build adds one layer. It is not compressed: it only ever travels over
// loopback, where compressing costs more than it saves.
func build(base v1.Image, config v1.Config, files []file) (v1.Image, error) {
	var layer bytes.Buffer
	if err := archive(&layer, files); err != nil {
		return nil, fmt.Errorf("build a layer: %w", err)
	}
	image, err := mutate.Append(mutate.MediaType(mutate.ConfigMediaType(base, types.OCIConfigJSON), types.OCIManifestSchema1),
		mutate.Addendum{Layer: static.NewLayer(layer.Bytes(), types.OCIUncompressedLayer)})
	if err != nil {
		return nil, fmt.Errorf("append a layer: %w", err)
	}
	current, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	current = current.DeepCopy()
	current.Config, current.OS, current.Architecture = config, "linux", "amd64"
	return mutate.ConfigFile(image, current)
}

func archive(w io.Writer, files []file) (err error) {
	out := tar.NewWriter(w)
	for _, f := range files {
		err = errors.Join(err, f.write(out))
	}
	return errors.Join(err, out.Close())
}

func (f file) write(out *tar.Writer) error {
	data := f.data
	if f.source != "" {
		var err error
		if data, err = os.ReadFile(f.source); err != nil {
			return err
		}
	}
	header := &tar.Header{
		Name: f.path, Mode: int64(f.mode.Perm()), Size: int64(len(data)), Typeflag: tar.TypeReg,
		ModTime: time.Unix(0, 0), Format: tar.FormatPAX,
	}
	switch {
	case f.mode&fs.ModeSymlink != 0:
		header.Typeflag, header.Linkname, header.Size = tar.TypeSymlink, string(data), 0
		return out.WriteHeader(header)
	case f.path[len(f.path)-1] == '/':
		header.Typeflag, header.Mode = tar.TypeDir, int64(f.mode)
	}
	if err := out.WriteHeader(header); err != nil {
		return err
	}
	_, err := out.Write(data)
	return err
}
