package deps

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	reasonConstant = regexp.MustCompile(`Reason\w+\s+Reason\s*=\s*"(\w+)"`)
	explained      = regexp.MustCompile("(?m)^\\| `(\\w+)` \\|")
)

// Each reason has one row in docs/troubleshooting.md, and each row a reason.
func TestEveryReasonIsExplained(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]int{}
	for _, row := range explained.FindAllStringSubmatch(string(text), -1) {
		rows[row[1]]++
	}
	for _, source := range sources(t, "pkg/apis") {
		for _, found := range reasonConstant.FindAllStringSubmatch(source, -1) {
			if rows[found[1]] == 0 {
				t.Errorf("reason %s has no row in docs/troubleshooting.md", found[1])
			}
			delete(rows, found[1])
		}
	}
	for reason := range rows {
		t.Errorf("docs/troubleshooting.md explains %s, which no constant names", reason)
	}
}

// A link between our documents must lead somewhere.
func TestDocumentsLinkToFiles(t *testing.T) {
	root := filepath.Join("..", "..")
	link := regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)]*)?\)`)
	var files []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, target := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), target[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", strings.TrimPrefix(file, root+"/"), target[1])
			}
		}
	}
}
