package qcow2

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// update makes the images in testdata anew: it needs qemu-img (Debian: qemu-utils).
var update = flag.Bool("update", false, "make testdata with qemu-img")

// images are what qemu-img made of disk(): options of create, and of convert.
var images = map[string][]string{
	"version-2":            {"-o", "compat=0.10"},
	"version-3":            {"-o", "compat=1.1,lazy_refcounts=on"},
	"small-clusters":       {"-o", "cluster_size=512"},
	"large-clusters":       {"-o", "cluster_size=2M"},
	"zlib":                 {"-c", "-o", "compression_type=zlib"},
	"zlib-small-clusters":  {"-c", "-o", "compression_type=zlib,cluster_size=4096"},
	"zstd":                 {"-c", "-o", "compression_type=zstd"},
	"written-zeros":        {"-S", "0", "-o", "compat=1.1"},
	"reserved-in-advance":  {"-o", "preallocation=metadata"},
	"reference-counts-one": {"-o", "refcount_bits=1"},
}

// disk is what all images hold: noise, text, and holes of all sorts; its end is
// on no cluster's boundary.
func disk() []byte {
	raw := make([]byte, 5<<20+7*sector)
	noise := rand.NewChaCha8([32]byte{1})
	for n := range 100 << 10 / 16 {
		copy(raw[n*16:], fmt.Sprintf("block number %3d", n%1000))
	}
	_, _ = noise.Read(raw[40<<10 : 44<<10])
	_, _ = noise.Read(raw[1<<20 : 1<<20+300])
	copy(raw[2<<20:], bytes.Repeat([]byte("all work and no play "), 20<<10))
	_, _ = noise.Read(raw[4<<20+64<<10 : 4<<20+70<<10])
	copy(raw[len(raw)-sector:], "the end")
	return raw
}

func image(t *testing.T, name string) []byte {
	t.Helper()
	path := filepath.Join("testdata", name+".qcow2.gz")
	if *update {
		makeImage(t, path, images[name])
	}
	packed, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	reader, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func makeImage(t *testing.T, path string, options []string) {
	t.Helper()
	dir := t.TempDir()
	raw, made := filepath.Join(dir, "raw"), filepath.Join(dir, "qcow2")
	if err := os.WriteFile(raw, disk(), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"convert", "-f", "raw", "-O", "qcow2"}, append(options, raw, made)...)
	if out, err := exec.Command("qemu-img", args...).CombinedOutput(); err != nil {
		t.Fatalf("qemu-img %v: %v\n%s", args, err, out)
	}
	content, err := os.ReadFile(made)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	_, _ = w.Write(content)
	_ = w.Close()
	if err := os.WriteFile(path, packed.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// memory is a sparse file in memory.
type memory struct {
	data    []byte
	written int
}

func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	m.written += len(p)
	return copy(m.data[off:], p), nil
}

func TestWhatQemuWroteIsReadBack(t *testing.T) {
	want, full := disk(), 0
	for start := 0; start < len(want); start += block {
		if part := want[start:min(start+block, len(want))]; !zero(part) {
			full += len(part)
		}
	}
	for name := range images {
		t.Run(name, func(t *testing.T) {
			img, err := Open(bytes.NewReader(image(t, name)))
			if err != nil || img.VirtualSize != int64(len(want)) {
				t.Fatalf("virtual size %d, want %d: %v", img.VirtualSize, len(want), err)
			}
			got, done := &memory{data: make([]byte, len(want))}, int64(0)
			if err := img.CopyTo(context.Background(), got, func(n int64) { done = n }); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.data, want) || done != int64(len(want)) {
				t.Errorf("the disk differs, or is not done at %d", done)
			}
			if got.written != full {
				t.Errorf("wrote %d bytes, of which only %d are no hole", got.written, full)
			}
		})
	}
}

func TestRefusesByName(t *testing.T) {
	put := func(offset int, value uint32) func([]byte) {
		return func(raw []byte) { binary.BigEndian.PutUint32(raw[offset:], value) }
	}
	tests := map[string]struct {
		change func([]byte)
		text   string
	}{
		"another format":            {put(0, 0), "not a qcow2 image"},
		"another version":           {put(4, 4), "version 4"},
		"a backing file":            {put(12, 112), "backing file"},
		"encryption":                {put(32, 2), "encryption"},
		"an external data file":     {put(76, 1<<2), "external data file"},
		"extended L2 entries":       {put(76, 1<<4), "extended L2 entries"},
		"a corrupt image":           {put(76, 1<<1), "corrupt bit"},
		"a feature nobody knows":    {put(72, 1<<8), "bit 40"},
		"another compression":       {func(raw []byte) { raw[104] = 7 }, "compression type 7"},
		"tiny clusters":             {put(20, 8), "2^8"},
		"giant clusters":            {put(20, 63), "2^63"},
		"no size":                   {put(28, 0), "virtual size"},
		"a giant size":              {put(24, 1<<30), "virtual size"},
		"an L1 table that is short": {put(36, 0), "L1 table has 0"},
		"an L1 table out of place":  {put(44, 513), "out of place"},
		"an L1 table beyond":        {put(40, 1), "read table"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			raw := image(t, "version-3")
			tt.change(raw)
			if _, err := Open(bytes.NewReader(raw)); err == nil || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, want %q", err, tt.text)
			}
		})
	}
}

func TestDirtyAndSnapshotsAreNoHindrance(t *testing.T) {
	raw := image(t, "version-3")
	raw[79] |= 1 // dirty
	binary.BigEndian.PutUint32(raw[60:], 3)
	if _, err := Open(bytes.NewReader(raw)); err != nil {
		t.Error(err)
	}
}

func TestDamageIsAnError(t *testing.T) {
	for name, from := range map[string]string{"cut short": "version-3", "cut short and compressed": "zlib", "cut short and zstd": "zstd"} {
		t.Run(name, func(t *testing.T) {
			raw := image(t, from)
			raw = raw[:len(raw)*3/4]
			img, err := Open(bytes.NewReader(raw))
			if err == nil {
				err = img.CopyTo(context.Background(), &memory{data: make([]byte, img.VirtualSize)}, func(int64) {})
			}
			if err == nil {
				t.Error("no error")
			}
		})
	}
}

// FuzzOpen: whatever the bytes, an error or a disk, in bounded memory.
func FuzzOpen(f *testing.F) {
	for kind := range 2 { // zlib, zstd; one plain cluster, one packed
		raw := make([]byte, 5*sector)
		copy(raw, Magic)
		raw[7], raw[23], raw[30], raw[39], raw[46], raw[103], raw[104] = 3, 9, 4, 1, 2, 112, byte(kind)
		raw[sector+6] = 4    // L1: table at 1024
		raw[2*sector+6] = 6  // L2: cluster at 1536
		raw[2*sector+8] = 64 // and a packed one
		raw[2*sector+14] = 8 // at 2048
		f.Add(raw)
	}
	f.Fuzz(func(_ *testing.T, raw []byte) {
		img, err := Open(bytes.NewReader(raw))
		if err != nil || img.VirtualSize > 64<<20 {
			return
		}
		_ = img.CopyTo(context.Background(), &memory{data: make([]byte, img.VirtualSize)}, func(int64) {})
	})
}
