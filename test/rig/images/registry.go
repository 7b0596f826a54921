package images

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/registry"
)

// journal keeps manifests on disk for a registry that keeps them in memory.
type journal struct {
	dir  string
	next http.Handler
}

// NewRegistry returns a registry that keeps everything in dir.
func NewRegistry(dir string) (http.Handler, error) {
	j := journal{dir: filepath.Join(dir, "manifests"), next: registry.New(
		registry.WithBlobHandler(registry.NewDiskBlobHandler(filepath.Join(dir, "blobs"))),
		registry.Logger(log.New(io.Discard, "", 0)))}
	if err := errors.Join(os.MkdirAll(j.dir, 0o755), os.MkdirAll(filepath.Join(dir, "blobs"), 0o755)); err != nil {
		return nil, fmt.Errorf("make the registry's directory: %w", err)
	}
	return j, j.replay()
}

func (j journal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/manifests/") {
		j.next.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	j.next.ServeHTTP(answer, r)
	if answer.Code == http.StatusCreated {
		if err := j.keep(r.URL.Path, r.Header.Get("Content-Type"), body); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// keep writes one file per manifest: its media type, a newline, its bytes.
func (j journal) keep(path, mediaType string, body []byte) error {
	file := filepath.Join(j.dir, url.PathEscape(path))
	data := append([]byte(mediaType+"\n"), body...)
	if err := os.WriteFile(file+".tmp", data, 0o644); err != nil {
		return fmt.Errorf("keep a manifest: %w", err)
	}
	return os.Rename(file+".tmp", file)
}

// replay puts the kept manifests, plain images before the indexes of them.
func (j journal) replay() error {
	entries, err := fs.Glob(os.DirFS(j.dir), "*")
	if err != nil {
		return err
	}
	for _, indexes := range []bool{false, true} {
		for _, entry := range entries {
			if strings.HasSuffix(entry, ".tmp") {
				continue
			}
			if err := j.put(entry, indexes); err != nil {
				return fmt.Errorf("restore manifest %s: %w", entry, err)
			}
		}
	}
	return nil
}

func (j journal) put(entry string, indexes bool) error {
	data, err := os.ReadFile(filepath.Join(j.dir, entry))
	if err != nil {
		return err
	}
	mediaType, body, _ := bytes.Cut(data, []byte("\n"))
	isIndex := strings.Contains(string(mediaType), "index") || strings.Contains(string(mediaType), "manifest.list")
	if isIndex != indexes {
		return nil
	}
	path, err := url.PathUnescape(entry)
	if err != nil {
		return err
	}
	request := httptest.NewRequest(http.MethodPut, path, bytes.NewReader(body))
	request.Header.Set("Content-Type", string(mediaType))
	answer := httptest.NewRecorder()
	j.next.ServeHTTP(answer, request)
	if answer.Code != http.StatusCreated {
		return fmt.Errorf("registry answered %d: %s", answer.Code, answer.Body)
	}
	return nil
}
