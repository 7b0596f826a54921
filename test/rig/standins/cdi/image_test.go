package cdi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const hole = 8 << 20

// sparse writes an image with data at both ends of a hole.
func sparse(t *testing.T, dir string) []byte {
	t.Helper()
	data := append([]byte("begin"), make([]byte, hole)...)
	data = append(data, "end"...)
	f, err := os.Create(filepath.Join(dir, diskName))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for at, text := range map[int64]string{0: "begin", int64(len(data)) - 3: "end"} {
		if _, err := f.WriteAt([]byte(text), at); err != nil {
			t.Fatal(err)
		}
	}
	return data
}

func blocks(t *testing.T, dir string) int64 {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, diskName))
	if err != nil {
		t.Fatal(err)
	}
	return allocated(info)
}

func ignore(int64, int64) {}

func TestCloneKeepsBytesAndHoles(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	want := sparse(t, from)
	if err := clone(t.Context(), from, to, ignore); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(to, diskName))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the copy differs: %v", err)
	}
	if blocks(t, to) > blocks(t, from)+1<<20 {
		t.Errorf("the copy takes %d bytes, the source %d", blocks(t, to), blocks(t, from))
	}
}

func TestCloneStopsWhenCancelled(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	sparse(t, from)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// A file system that shares blocks is done before it is asked.
	if err := clone(ctx, from, to, ignore); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestDownload(t *testing.T) {
	raw := sparse(t, t.TempDir())
	sum := fmt.Sprintf("sha256:%x", sha256.Sum256(raw))
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/raw":
			_, _ = w.Write(raw)
		case "/cut":
			w.Header().Set("Content-Length", "1000000")
			_, _ = w.Write(raw[:1000])
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	trusted := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for _, row := range []struct {
		name     string
		path     string
		roots    [][]byte
		limit    int64
		checksum string
		want     string
	}{
		{"a raw image arrives", "/raw", [][]byte{trusted}, 1 << 30, sum, ""},
		{"an unknown authority is told", "/raw", nil, 1 << 30, "", "certificate signed by unknown authority"},
		{"a missing image is told", "/none", [][]byte{trusted}, 1 << 30, "", "expected status code 200, got 404. Status: 404 Not Found"},
		{"an image that is too large is told", "/raw", [][]byte{trusted}, 1 << 20, "", "larger than the reported available storage"},
		{"a cut connection is no end", "/cut", [][]byte{trusted}, 1 << 30, "", errCut.Error()},
		{"a wrong checksum is told", "/raw", [][]byte{trusted}, 1 << 30, "sha256:00", "checksum mismatch"},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			d := download{source: HTTPSource{URL: server.URL + row.path, Checksum: row.checksum}, roots: row.roots, limit: row.limit}
			err := d.run(t.Context(), dir, ignore)
			if row.want != "" {
				if err == nil || !strings.Contains(err.Error(), row.want) {
					t.Errorf("got %v, want %q", err, row.want)
				}
				return
			}
			got, readErr := os.ReadFile(filepath.Join(dir, diskName))
			if err != nil || readErr != nil || !bytes.Equal(got, raw) {
				t.Errorf("the image differs: %v, %v", err, readErr)
			}
			if blocks(t, dir) > 1<<20 {
				t.Errorf("the image takes %d bytes, zeros were to be holes", blocks(t, dir))
			}
		})
	}
}

func TestDownloadConvertsQcow2(t *testing.T) {
	if _, err := exec.LookPath("qemu-img"); err != nil {
		t.Fatal("qemu-img is missing: apt-get install qemu-utils, or make rig-up")
	}
	dir := t.TempDir()
	raw := sparse(t, dir)
	packed := filepath.Join(dir, "disk.qcow2")
	if out, err := exec.Command("qemu-img", "convert", "-f", "raw", "-O", "qcow2", filepath.Join(dir, diskName), packed).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	target := t.TempDir()
	d := download{source: HTTPSource{URL: server.URL + "/disk.qcow2"}, limit: 1 << 30}
	if err := d.run(t.Context(), target, ignore); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(target, diskName))
	if err != nil || !bytes.HasPrefix(got, raw) {
		t.Errorf("the image differs: %v", err)
	}
	d.limit = 1 << 20
	if err := d.run(t.Context(), target, ignore); err == nil || simplify(err.Error()) != "DataVolume too small to contain image" {
		t.Errorf("got %v for too small a volume", err)
	}
}
