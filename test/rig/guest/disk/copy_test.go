package disk

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestCopyKeepsHoles(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	f, err := os.Create(from)
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte("guest"), 10000)
	for _, at := range []int64{0, 700 << 20} {
		if _, err := f.WriteAt(data, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Truncate(1 << 30); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Copy(t.Context(), to, from); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(to)
	if err != nil {
		t.Fatal(err)
	}
	if blocks := info.Sys().(*syscall.Stat_t).Blocks * 512; info.Size() != 1<<30 || blocks > 1<<20 {
		t.Errorf("the copy has size %d in %d bytes", info.Size(), blocks)
	}
	copied, err := os.Open(to)
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	got := make([]byte, len(data))
	if _, err := copied.ReadAt(got, 700<<20); err != nil || !bytes.Equal(got, data) {
		t.Errorf("the second piece differs: %v", err)
	}
}
