package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"
)

// Annotations by which Tekton's resolver finds an object, and how many objects
// it takes.
const (
	annotationName       = "dev.tekton.image.name"
	annotationKind       = "dev.tekton.image.kind"
	annotationAPIVersion = "dev.tekton.image.apiVersion"
	maxObjects           = 20
)

// object is one document of the input.
type object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	raw []byte
}

// newBundle packs the documents of a YAML stream, in their order.
func newBundle(stream []byte) (v1.Image, error) {
	objects, err := parse(stream)
	if err != nil {
		return nil, err
	}
	bundle := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, o := range objects {
		layer, err := newLayer(o)
		if err != nil {
			return nil, err
		}
		bundle, err = mutate.Append(bundle, mutate.Addendum{Layer: layer, Annotations: map[string]string{
			annotationName: o.Metadata.Name, annotationKind: strings.ToLower(o.Kind), annotationAPIVersion: version(o),
		}})
		if err != nil {
			return nil, err
		}
	}
	return bundle, nil
}

// version is the part of apiVersion that the annotation wants: v1 of tekton.dev/v1.
func version(o object) string {
	_, version, _ := strings.Cut(o.APIVersion, "/")
	return version
}

func parse(stream []byte) ([]object, error) {
	var objects []object
	seen := map[string]bool{}
	for _, document := range strings.Split("\n"+string(stream), "\n---") {
		var o object
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			return nil, err
		}
		if o.Kind == "" {
			continue // an empty document
		}
		o.raw = []byte(strings.TrimSpace(document) + "\n")
		if err := check(o, seen); err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
	if len(objects) == 0 || len(objects) > maxObjects {
		return nil, fmt.Errorf("%d objects: Tekton takes 1 to %d", len(objects), maxObjects)
	}
	return objects, nil
}

// check refuses what a resolver would hand out broken.
func check(o object, seen map[string]bool) error {
	id := o.Kind + "/" + o.Metadata.Name
	switch {
	case !strings.HasPrefix(o.APIVersion, "tekton.dev/") || o.Metadata.Name == "":
		return fmt.Errorf("%s %s is no Tekton object with a name", o.APIVersion, id)
	case o.Metadata.Namespace != "":
		return fmt.Errorf("%s has a namespace: a bundle is for every namespace", id)
	case bytes.Contains(o.raw, []byte("ko://")):
		return fmt.Errorf("%s has an unresolved ko:// image: pipe it through ko resolve", id)
	case seen[id]:
		return fmt.Errorf("%s is there twice", id)
	}
	seen[id] = true
	return nil
}

// newLayer is a tar with one file, as tkn makes it.
func newLayer(o object) (v1.Layer, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.WriteHeader(&tar.Header{Name: o.Metadata.Name, Mode: 0o600, Size: int64(len(o.raw)), Typeflag: tar.TypeReg}); err != nil {
		return nil, err
	}
	if _, err := w.Write(o.raw); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil }
	return tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer))
}
