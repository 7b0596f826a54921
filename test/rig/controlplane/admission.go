package controlplane

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
)

//go:embed admission.yaml
var admission []byte

func (p Plan) admissionFile() string { return filepath.Join(p.Dir, "config", "admission.yaml") }

// WriteAdmission writes the configuration of admission that a control plane
// with a node reads.
func (p Plan) WriteAdmission() error {
	if err := os.MkdirAll(filepath.Dir(p.admissionFile()), 0o755); err != nil {
		return fmt.Errorf("write the admission configuration: %w", err)
	}
	if err := os.WriteFile(p.admissionFile(), admission, 0o644); err != nil {
		return fmt.Errorf("write the admission configuration: %w", err)
	}
	return nil
}
