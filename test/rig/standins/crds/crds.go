package crds

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:generate go run ./generate

//go:embed *.yaml
var files embed.FS

// Manifests are the texts of all kinds.
func Manifests() ([][]byte, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list the kinds: %w", err)
	}
	var texts [][]byte
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read kind %s: %w", name, err)
		}
		texts = append(texts, text)
	}
	return texts, nil
}
