package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"testing"

	"opdev.io/guestcluster/pkg/steps/bundle/bundletest"
	"opdev.io/guestcluster/pkg/steps/step"
)

// memory is a file in memory.
type memory []byte

func (m *memory) Truncate(size int64) error { *m = make([]byte, size); return nil }

func (m *memory) WriteAt(p []byte, offset int64) (int, error) { return copy((*m)[offset:], p), nil }

var source = &Source{Version: bundletest.Version, Arch: bundletest.Arch}

func open(t *testing.T, packed []byte) *Archive {
	t.Helper()
	archive, err := OpenArchive(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(archive.Close)
	return archive
}

func unpackAll(packed []byte, disk *memory) (*Members, error) {
	archive, err := OpenArchive(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	return Unpack(archive, source, disk)
}

func TestSparseDisksAreReadInEveryWay(t *testing.T) {
	for name, way := range map[string]string{"dense": bundletest.Dense, "old GNU headers": bundletest.GNU, "PAX headers": bundletest.PAX} {
		t.Run(name, func(t *testing.T) {
			members := bundletest.Members(bundletest.Info())
			members[1].Sparse = way
			disk := &memory{}
			got, err := unpackAll(bundletest.Zstd(bundletest.Tar(bundletest.Top, members...)), disk)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(*disk, bundletest.Disk()) || !bytes.Equal(got.Key(), bundletest.Key()) {
				t.Error("disk or key differ")
			}
			if got.Header.VirtualSize != bundletest.VirtualSize || got.Info.OCPVersion != bundletest.Version || got.Info.BuildTime != "2026-01-02T03:04:05Z" {
				t.Errorf("%+v, %+v", got.Info, got.Header)
			}
		})
	}
}

func TestPeekNeedsOnlyTheStart(t *testing.T) {
	members := bundletest.Members(bundletest.Info())
	packed := bundletest.Zstd(bundletest.Tar(bundletest.Top, append(members[:2:2], bundletest.Member{Name: "junk", Data: noise(8 << 20)})...))
	got, err := Peek(open(t, packed[:2<<20]), source)
	if err != nil || got.Header.VirtualSize != bundletest.VirtualSize {
		t.Errorf("%+v: %v", got, err)
	}
}

func noise(n int) []byte {
	out := make([]byte, n)
	x := uint32(1)
	for i := range out {
		x = x*1664525 + 1013904223
		out[i] = byte(x >> 24)
	}
	return out
}

func TestTheLargestWindowIsRead(t *testing.T) {
	packed := bundletest.ZstdWindow(bundletest.Tar(bundletest.Top, bundletest.Members(bundletest.Info())...), 27)
	if _, err := unpackAll(packed, &memory{}); err != nil {
		t.Error(err)
	}
}

func TestMembersInAnyOrder(t *testing.T) {
	members := bundletest.Members(bundletest.Info())
	members[0], members[3] = members[3], members[0]
	members[1], members[2] = members[2], members[1]
	packed := bundletest.Zstd(bundletest.Tar(bundletest.Top, members...))
	if _, err := unpackAll(packed, &memory{}); err != nil {
		t.Error(err)
	}
	if _, err := Peek(open(t, packed), source); err != nil {
		t.Error(err)
	}
}

func TestWhatHasNoBusinessInABundle(t *testing.T) {
	add := func(extra ...bundletest.Member) []byte {
		return bundletest.Zstd(bundletest.Tar(bundletest.Top, append(bundletest.Members(bundletest.Info()), extra...)...))
	}
	alone := func(top string, members ...bundletest.Member) []byte {
		return bundletest.Zstd(bundletest.Tar(top, members...))
	}
	many := make([]bundletest.Member, maxEntries)
	for i := range many {
		many[i].Name = "m" + string(rune('A'+i/26)) + string(rune('a'+i%26))
	}
	for name, tt := range map[string]struct {
		packed []byte
		text   string
	}{
		"a way out":             {add(bundletest.Member{Name: "../../etc/passwd"}), "not a file in its one directory"},
		"a path":                {add(bundletest.Member{Name: "a/b"}), "not a file in its one directory"},
		"a symbolic link":       {add(bundletest.Member{Name: "l", Type: tar.TypeSymlink, Data: []byte("/etc/passwd")}), "neither a file nor a directory"},
		"a hard link":           {add(bundletest.Member{Name: "l", Type: tar.TypeLink, Data: []byte("oc")}), "neither a file nor a directory"},
		"a device":              {add(bundletest.Member{Name: "d", Type: tar.TypeBlock}), "neither a file nor a directory"},
		"the same twice":        {add(bundletest.Member{Name: "oc"}), "twice"},
		"a second disk":         {add(bundletest.Member{Name: "b.qcow2", Data: bundletest.Disk()}), "two disks: crc.qcow2 and b.qcow2"},
		"an absolute path":      {alone("", bundletest.Member{Name: "/etc/passwd"}), "not a file in its one directory"},
		"no directory":          {alone("..", bundletest.Member{Name: "passwd"}), "not a file in its one directory"},
		"too many members":      {add(many...), "more than 64 members"},
		"a window that is huge": {bundletest.ZstdWindow(bundletest.Tar(bundletest.Top), 28), "zstd window larger than 128.0 MiB"},
		"a bomb":                {alone("x", bundletest.Member{Name: "y", Data: make([]byte, freeRatio+1<<20)}), "unpacks to more"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := unpackAll(tt.packed, &memory{})
			wants(t, err, step.ExitUser, tt.text)
		})
	}
}

func TestOtherPackersAreNamed(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(bundletest.Tar(bundletest.Top))
	_ = w.Close()
	for name, raw := range map[string][]byte{"gzip": packed.Bytes(), "xz": []byte("\xfd7zXZ\x00....")} {
		_, err := OpenArchive(bytes.NewReader(raw))
		wants(t, err, step.ExitUser, "packed with "+name)
	}
}

func TestDamageIsToldFromRefusal(t *testing.T) {
	whole := bundletest.Default()
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 0xff
	for name, packed := range map[string][]byte{
		"nothing": {}, "cut": whole[:len(whole)/2], "one byte": whole[:1], "text": []byte("<html>not found</html>"), "a flipped bit": flipped,
		"no tar": bundletest.Zstd(bytes.Repeat([]byte("no tar "), 1000)),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := unpackAll(packed, &memory{}); !IsDamaged(err) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestBundlesThatAreIncomplete(t *testing.T) {
	for name, text := range map[string]string{
		InfoName: InfoName + " is not in the bundle", "crc.qcow2": "disk crc.qcow2", "id_ecdsa_crc": "id_ecdsa_crc", "kubeconfig": "kubeconfig",
	} {
		t.Run("without "+name, func(t *testing.T) {
			members := bundletest.Without(t, bundletest.Members(bundletest.Info()), name)
			_, err := unpackAll(bundletest.Zstd(bundletest.Tar(bundletest.Top, members...)), &memory{})
			wants(t, err, step.ExitUser, text)
		})
	}
	t.Run("with a disk of another format", func(t *testing.T) {
		members := bundletest.Members(bundletest.Info())
		members[1].Data = bundletest.Raw()
		_, err := unpackAll(bundletest.Zstd(bundletest.Tar(bundletest.Top, members...)), &memory{})
		wants(t, err, step.ExitUser, "no qcow2 image")
	})
	t.Run("with a disk that needs another", func(t *testing.T) {
		members := bundletest.Members(bundletest.Info())
		members[1].Data = bytes.Clone(members[1].Data)
		members[1].Data[15] = 200
		_, err := unpackAll(bundletest.Zstd(bundletest.Tar(bundletest.Top, members...)), &memory{})
		wants(t, err, step.ExitUser, "backing file")
	})
}
