package mirror

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

// member is what a reader sees of a member.
type member struct {
	tar.Header
	sum  string
	size int64
	head []byte
}

// decoder is one for all tests: each has a window of 128 MiB to clear.
var decoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderMaxWindow(1<<window), zstd.WithDecoderConcurrency(1))
	if err != nil {
		panic(err)
	}
	return d
})

// read reads a bundle as a user of it does.
func read(t *testing.T, bundle string) ([]member, error) {
	t.Helper()
	f, err := os.Open(bundle)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	decoder := decoder()
	if err := decoder.Reset(f); err != nil {
		t.Fatal(err)
	}
	var all []member
	for archive := tar.NewReader(decoder); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		hash, head := sha256.New(), bytes.Buffer{}
		n, err := io.Copy(io.MultiWriter(hash, &first{&head}), archive)
		if err != nil {
			return all, err
		}
		all = append(all, member{*header, hex.EncodeToString(hash.Sum(nil)), n, head.Bytes()})
	}
}

// first keeps the first kilobytes.
type first struct{ *bytes.Buffer }

func (f *first) Write(p []byte) (int, error) {
	f.Buffer.Write(p[:min(len(p), max(0, 64<<10-f.Len()))])
	return len(p), nil
}

func tiny(t *testing.T, dir string) Parts {
	t.Helper()
	parts, err := tinyParts(dir, Size31)
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

func TestABundleReadsAsPublishedOnesDo(t *testing.T) {
	cache := t.TempDir()
	o := Options{Version: "4.19.3", Arch: "amd64", BuildTime: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	dir, err := Make(t.Context(), cache, tiny(t, cache), o)
	if err != nil {
		t.Fatal(err)
	}
	bundle := filepath.Join(dir, "crc_libvirt_4.19.3_amd64.crcbundle")
	all, err := read(t, bundle)
	if err != nil {
		t.Fatal(err)
	}
	type seen struct {
		Name string
		Mode int64
	}
	var got []seen
	byName := map[string]member{}
	for _, m := range all {
		got = append(got, seen{m.Name, m.Mode & 0o777})
		byName[filepath.Base(m.Name)] = m
	}
	const top = "crc_libvirt_4.19.3_amd64/"
	want := []seen{
		{top, 0o755}, {top + infoName, 0o644}, {top + "crc.qcow2", 0o644}, {top + "id_ecdsa_crc", 0o400},
		{top + "kubeconfig", 0o644}, {top + "oc", 0o755},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
	if kind := byName["crc.qcow2"].Typeflag; kind != tar.TypeGNUSparse {
		t.Errorf("the disk's member has type %q, not that of a sparse file", kind)
	}
	checkInfo(t, byName, o)
	if size := virtualSize(byName["crc.qcow2"].head); size != Size31 {
		t.Errorf("the disk's virtual size is %d", size)
	}
	checkWindow(t, bundle, 1<<27)
}

// checkInfo compares the metadata with what it is about.
func checkInfo(t *testing.T, members map[string]member, o Options) {
	t.Helper()
	var doc info
	if err := json.Unmarshal(members[infoName].head, &doc); err != nil {
		t.Fatal(err)
	}
	disk, oc := members["crc.qcow2"], members["oc"]
	want := storage{
		DiskImages: []image{{Name: "crc.qcow2", Format: "qcow2", Size: strconv.FormatInt(disk.size, 10), SHA256: disk.sum}},
		FileList:   []file{{Name: "oc", Type: "oc-executable", Size: strconv.FormatInt(oc.size, 10), SHA256: oc.sum}},
	}
	if diff := cmp.Diff(want, doc.Storage); diff != "" {
		t.Errorf("storage (-want +got):\n%s", diff)
	}
	if doc.Version != "1.4" || doc.Name != o.Name() || doc.Arch != "amd64" || doc.ClusterInfo.OpenShiftVersion != o.Version ||
		doc.BuildInfo.BuildTime != "2026-01-02T03:04:05Z" || doc.DriverInfo.Name != "libvirt" {
		t.Errorf("metadata is %+v", doc)
	}
}

// virtualSize is what the header of a qcow2 image tells.
func virtualSize(head []byte) (size int64) {
	if !bytes.HasPrefix(head, []byte("QFI\xfb")) {
		return 0
	}
	for _, b := range head[24:32] {
		size = size<<8 | int64(b)
	}
	return size
}

func checkWindow(t *testing.T, bundle string, want uint64) {
	t.Helper()
	data, err := os.ReadFile(bundle)
	if err != nil {
		t.Fatal(err)
	}
	var header zstd.Header
	if err := header.Decode(data); err != nil {
		t.Fatal(err)
	}
	if header.WindowSize != want || header.SingleSegment {
		t.Errorf("the window is %d, not %d", header.WindowSize, want)
	}
}

func TestChecksumsAreListedAndSigned(t *testing.T) {
	cache := t.TempDir()
	o := Options{Version: "4.19.3", Level: LevelQuick}.withDefaults()
	dir, err := Make(t.Context(), cache, tiny(t, cache), o)
	if err != nil {
		t.Fatal(err)
	}
	text := readFile(t, filepath.Join(dir, "sha256sum.txt"))
	_, sum, err := measure(filepath.Join(dir, o.File()))
	if err != nil {
		t.Fatal(err)
	}
	var exact, similar int
	for line := range strings.Lines(string(text)) {
		if line == sum+"  "+o.File()+"\n" {
			exact++
		} else if strings.Contains(line, o.Name()) {
			similar++
		}
		if fields := strings.Split(strings.TrimSuffix(line, "\n"), "  "); len(fields) != 2 || len(fields[0]) != 64 {
			t.Errorf("line %q", line)
		}
	}
	if exact != 1 || similar == 0 {
		t.Errorf("the list has the bundle %d times and %d similar names:\n%s", exact, similar, text)
	}
	keys, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(readFile(t, filepath.Join(dir, PublicKeyName))))
	if err != nil {
		t.Fatal(err)
	}
	block, rest := clearsign.Decode(readFile(t, filepath.Join(dir, "sha256sum.txt.sig")))
	if block == nil || len(bytes.TrimSpace(rest)) != 0 {
		t.Fatalf("the signature is no clear-signed message, %q follows", rest)
	}
	if _, err := block.VerifySignature(keys, nil); err != nil {
		t.Errorf("verify the signature: %v", err)
	}
	if !bytes.Equal(block.Plaintext, text) {
		t.Errorf("the signed list is not the list:\n%s", block.Plaintext)
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestABundleIsMadeOnce(t *testing.T) {
	cache := t.TempDir()
	parts := tiny(t, cache)
	var lines []string
	o := Options{Version: "4.19.3", Level: LevelQuick, Log: func(format string, _ ...any) { lines = append(lines, format) }}
	first, err := Make(t.Context(), cache, parts, o)
	if err != nil {
		t.Fatal(err)
	}
	made := len(lines)
	again, err := Make(t.Context(), cache, parts, o)
	if err != nil || again != first || len(lines) != made || made == 0 {
		t.Errorf("got %s, then %s, %v with log %q", first, again, err, lines)
	}
	o.Version = "4.19.4"
	other, err := Make(t.Context(), cache, parts, o)
	if err != nil || other == first {
		t.Errorf("another version is %s, %v", other, err)
	}
	if slices.Contains(lines[made:], "convert %s to qcow2") {
		t.Errorf("the same disk was converted again: %q", lines)
	}
}

func TestAnInterruptedMakeLeavesNothingBehind(t *testing.T) {
	cache := t.TempDir()
	parts := tiny(t, cache)
	ctx, cancel := context.WithCancel(t.Context())
	o := Options{Version: "4.19.3", Level: LevelQuick, Log: func(string, ...any) { cancel() }}
	if dir, err := Make(ctx, cache, parts, o); err == nil {
		t.Errorf("an interrupted Make returned %s", dir)
	}
	for _, pattern := range []string{"crc_*", "disk-*"} {
		left, err := filepath.Glob(filepath.Join(cache, pattern))
		if err != nil {
			t.Fatal(err)
		}
		left = slices.DeleteFunc(left, func(name string) bool { return strings.HasSuffix(name, ".lock") })
		if len(left) != 0 {
			t.Errorf("left behind: %v", left)
		}
	}
	o.Log = nil
	if _, err := Make(t.Context(), cache, parts, o); err != nil {
		t.Errorf("make it again: %v", err)
	}
}

func TestUnusedResultsArePruned(t *testing.T) {
	cache := t.TempDir()
	for _, name := range []string{"old", "new", "old.partial"} {
		if err := os.Mkdir(filepath.Join(cache, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	old := now.Add(-keep - time.Hour)
	for _, name := range []string{"old", "old.partial"} {
		if err := os.Chtimes(filepath.Join(cache, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := prune(cache, now); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(cache, "*"))
	if err != nil || len(left) != 2 {
		t.Errorf("left are %v, %v", left, err)
	}
}
