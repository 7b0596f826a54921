package mirror

import (
	"archive/tar"
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func TestEveryOddBundleHasAVersionOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, odd := range Odds {
		if seen[odd.Version] || odd.What == "" {
			t.Errorf("version %s is there twice or says nothing", odd.Version)
		}
		seen[odd.Version] = true
	}
}

func odd(t *testing.T, version string) (bundle string, all []member, err error) {
	t.Helper()
	o, found := OddOf(version)
	if !found {
		t.Fatalf("no odd bundle %s", version)
	}
	dir, err := o.Make(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	bundle = filepath.Join(dir, o.options().File())
	all, err = read(t, bundle)
	return bundle, all, err
}

func TestSparseMembersOfBothKinds(t *testing.T) {
	for version, want := range map[string]byte{"4.98.2": tar.TypeReg, "4.98.3": tar.TypeGNUSparse} {
		_, all, err := odd(t, version)
		if err != nil {
			t.Fatal(err)
		}
		disk := all[2]
		if disk.Typeflag != want || disk.size <= 320<<10 || virtualSize(disk.head) != Size31 {
			t.Errorf("%s: type %q, %d bytes, virtual size %d", version, disk.Typeflag, disk.size, virtualSize(disk.head))
		}
		if pax := disk.PAXRecords["GNU.sparse.realsize"] != ""; pax != (want == tar.TypeReg) {
			t.Errorf("%s: PAX records %v", version, disk.PAXRecords)
		}
	}
}

func TestADiskOf43GiB(t *testing.T) {
	_, all, err := odd(t, "4.98.1")
	if err != nil || virtualSize(all[2].head) != Size43 {
		t.Errorf("virtual size %d, %v", virtualSize(all[2].head), err)
	}
}

func TestAWindowBeyondTheLimit(t *testing.T) {
	bundle, _, err := odd(t, "4.98.16")
	if !errors.Is(err, zstd.ErrWindowSizeExceeded) {
		t.Errorf("read with a window of 128 MiB: %v", err)
	}
	checkWindow(t, bundle, 1<<28)
}

func TestAMemberOutsideOfTheDirectory(t *testing.T) {
	_, all, err := odd(t, "4.98.17")
	if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
		t.Fatal(err)
	}
	if last := all[len(all)-1]; last.Name != "../../outside" {
		t.Errorf("the last member is %s", last.Name)
	}
}

func TestATruncatedArchive(t *testing.T) {
	if _, all, err := odd(t, "4.98.11"); err == nil || len(all) < 2 {
		t.Errorf("read %d members and then %v", len(all), err)
	}
}

func TestMistypedSizes(t *testing.T) {
	_, all, err := odd(t, "4.98.30")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(all[1].head)) {
		if strings.Contains(line, `"size"`) && strings.Count(line, `"`) != 2 {
			t.Errorf("a size is text: %s", line)
		}
	}
	if !bytes.Contains(all[1].head, []byte(`"size"`)) {
		t.Error("no sizes")
	}
}
