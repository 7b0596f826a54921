package images

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

const refAnnotation = "org.opencontainers.image.ref.name"

// Client pushes and pulls through a dialer that reaches the registry.
type Client struct {
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Push stores the image under each reference.
func (c Client) Push(ctx context.Context, image v1.Image, references ...string) error {
	for _, reference := range references {
		ref, err := name.ParseReference(reference)
		if err != nil {
			return fmt.Errorf("parse %s: %w", reference, err)
		}
		if err := remote.Write(ref, image, c.options(ctx)...); err != nil {
			return fmt.Errorf("push %s: %w", reference, err)
		}
	}
	return nil
}

// Save copies the referenced images into the directory.
func (c Client) Save(ctx context.Context, dir string, references []string) error {
	out, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("make image directory %s: %w", dir, err)
	}
	for _, reference := range references {
		ref, err := name.ParseReference(reference)
		if err != nil {
			return fmt.Errorf("parse %s: %w", reference, err)
		}
		image, err := remote.Image(ref, c.options(ctx)...)
		if err != nil {
			return fmt.Errorf("pull %s: %w", reference, err)
		}
		if err := out.AppendImage(image, layout.WithAnnotations(map[string]string{refAnnotation: reference})); err != nil {
			return fmt.Errorf("save %s: %w", reference, err)
		}
	}
	return nil
}

// Restore pushes what Save kept.
func (c Client) Restore(ctx context.Context, dir string) error {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return fmt.Errorf("read image directory %s: %w (remove it to build the images again)", dir, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return fmt.Errorf("read image directory %s: %w", dir, err)
	}
	for _, entry := range manifest.Manifests {
		image, err := index.Image(entry.Digest)
		if err != nil {
			return fmt.Errorf("read %s: %w", entry.Annotations[refAnnotation], err)
		}
		if err := c.Push(ctx, image, entry.Annotations[refAnnotation]); err != nil {
			return err
		}
	}
	return nil
}

// Saved tells whether Save filled the directory.
func Saved(dir string) bool {
	_, err := os.Stat(dir)
	return err == nil
}

func (c Client) options(ctx context.Context) []remote.Option {
	return []remote.Option{remote.WithContext(ctx), remote.WithTransport(&http.Transport{DialContext: c.Dial})}
}
