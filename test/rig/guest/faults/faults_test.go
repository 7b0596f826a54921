package faults

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestParseRefusesUnknownNames(t *testing.T) {
	if _, err := Parse([]string{"ssh-refuse", "ssh-refused"}); err == nil {
		t.Error("a misspelt fault passed")
	}
}

func TestLaterFilesWin(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"disk": "# a comment with words\nslow=2\ncerts=near", "start": "slow=3,mco-never\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set, err := Read(filepath.Join(dir, "disk"), filepath.Join(dir, "missing"), filepath.Join(dir, "start"))
	if err != nil {
		t.Fatal(err)
	}
	if set[Certs] != "near" || !set.Has(MCONever) || set.Delay(time.Second) != 3*time.Second {
		t.Errorf("got %v", set)
	}
}
