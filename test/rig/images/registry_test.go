package images

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func TestRegistryKeepsImagesAcrossRestart(t *testing.T) {
	dir := t.TempDir()
	start := func() name.Tag {
		handler, err := NewRegistry(dir)
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		tag, err := name.NewTag(strings.TrimPrefix(server.URL, "http://") + "/some/image:v1")
		if err != nil {
			t.Fatal(err)
		}
		return tag
	}
	image, err := random.Image(10, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(start(), image); err != nil {
		t.Fatal(err)
	}
	if _, err := remote.Image(start()); err != nil {
		t.Errorf("pull after restart: %v", err)
	}
}
