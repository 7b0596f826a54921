package node

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	"opdev.io/guestcluster/test/rig/confine"
)

//go:embed files
var files embed.FS

// Values fill the configuration files.
type Values struct {
	State         confine.State
	NodeIP        string
	NodeName      string
	CgroupRoot    string
	Registry      string
	PauseImage    string
	Runc          string
	IngressDomain string
	// MirrorHosts are names of MirrorIP.
	MirrorIP    string
	MirrorHosts []string
}

// Write fills every file below files/ into STATE/config.
func Write(v Values) error {
	templates, err := template.ParseFS(files, "files/*")
	if err != nil {
		return fmt.Errorf("parse the node's configuration: %w", err)
	}
	for _, t := range templates.Templates() {
		var out bytes.Buffer
		if err := t.Execute(&out, v); err != nil {
			return fmt.Errorf("fill %s: %w", t.Name(), err)
		}
		file := v.State.Path("config", place(t.Name(), v))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("make the configuration directory: %w", err)
		}
		// kube-proxy ends when its file is written, even with the same content.
		if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, out.Bytes()) {
			continue
		}
		if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
			return fmt.Errorf("write %s: %w", t.Name(), err)
		}
	}
	return nil
}

// place is where a file goes when the reader wants a directory of its own.
func place(name string, v Values) string {
	switch name {
	case "hosts.toml":
		return filepath.Join("registry", v.Registry, name)
	case "pods.conflist":
		return filepath.Join("cni", name)
	}
	return name
}
