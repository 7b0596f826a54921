package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"opdev.io/guestcluster/test/rig/confine"
	"opdev.io/guestcluster/test/rig/standins/crds"
)

const openshiftAPI = "github.com/openshift/api@v0.0.0-20250609083529-2b129d95495e"

// openshiftKinds are the real schemas that the stand-ins serve.
var openshiftKinds = []string{
	"route/v1/zz_generated.crd-manifests/routes.crd.yaml",
	"config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_ingresses.crd.yaml",
}

var separator = []byte("\n---\n")

//go:embed manifests
var manifests embed.FS

func manifest(name string) []byte {
	data, err := manifests.ReadFile("manifests/" + name)
	if err != nil {
		panic(err)
	}
	return data
}

func (r *rig) kubectl(ctx context.Context, input []byte, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, r.state.Path("bin", "kubectl"), append([]string{"--kubeconfig=" + r.state.Path("kubeconfig")}, args...)...)
	cmd.Stdin = bytes.NewReader(input)
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(failure.Bytes()))
	}
	return out, nil
}

// applyOnce applies text unless a note says that this text was applied to this
// state before. Objects that refer to fresh kinds need some patience.
func (r *rig) applyOnce(ctx context.Context, name string, text []byte) error {
	note, sum := r.config("applied-"+name), fmt.Sprintf("%x", sha256.Sum256(text))
	if old, err := os.ReadFile(note); err == nil && string(old) == sum {
		return nil
	}
	err := r.poll(ctx, name+" is applied", func() error {
		_, err := r.kubectl(ctx, text, "apply", "--server-side", "--force-conflicts", "-f", "-")
		return err
	})
	if err != nil {
		return err
	}
	return os.WriteFile(note, []byte(sum), 0o644)
}

func (r *rig) waitAPI(ctx context.Context, _ *compiling) error {
	return r.poll(ctx, "the API server is ready", func() error {
		_, err := r.kubectl(ctx, nil, "get", "--raw=/readyz")
		return err
	})
}

func (r *rig) applyManifests(ctx context.Context, _ *compiling) error {
	dir, err := moduleDir(ctx, openshiftAPI)
	if err != nil {
		return err
	}
	parts := [][]byte{manifest("storage.yaml"), manifest("restricted.yaml"), manifest("check-namespace.yaml")}
	for _, kind := range openshiftKinds {
		text, err := os.ReadFile(filepath.Join(dir, kind))
		if err != nil {
			return fmt.Errorf("read an OpenShift kind: %w", err)
		}
		parts = append(parts, text)
	}
	if err := r.applyOnce(ctx, "manifests", bytes.Join(parts, separator)); err != nil {
		return err
	}
	if err := r.applyVirtualization(ctx); err != nil {
		return err
	}
	return r.applyOnce(ctx, "ingress", manifest("ingress.yaml"))
}

// applyVirtualization applies the kinds of KubeVirt and CDI, and what their
// stand-ins need.
func (r *rig) applyVirtualization(ctx context.Context) error {
	kinds, err := crds.Manifests()
	if err != nil {
		return err
	}
	authority, err := os.ReadFile(filepath.Join(r.plan.IdentityDir(), "ca.crt"))
	if err != nil {
		return fmt.Errorf("read the authority: %w", err)
	}
	webhook := strings.NewReplacer(
		"ADMISSION_URL", admissionURL, "CA_BUNDLE", base64.StdEncoding.EncodeToString(authority),
	).Replace(string(manifest("cdi.yaml")))
	parts := append(kinds, manifest("kubevirt.yaml"), []byte(webhook))
	return r.applyOnce(ctx, "virtualization", bytes.Join(parts, separator))
}

// moduleDir is where the module cache has a module that no program imports.
func moduleDir(ctx context.Context, module string) (string, error) {
	cache, err := exec.CommandContext(ctx, "go", "env", "GOMODCACHE").Output()
	if err != nil {
		return "", fmt.Errorf("find the module cache: %w", err)
	}
	dir := filepath.Join(strings.TrimSpace(string(cache)), module)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	cmd.Dir = os.TempDir()
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("download %s: %w: %s", module, err, out)
	}
	var answer struct{ Dir string }
	if err := json.Unmarshal(out, &answer); err != nil {
		return "", fmt.Errorf("download %s: %w", module, err)
	}
	return answer.Dir, nil
}

func (r *rig) startStandins(context.Context, *compiling) error {
	program, err := r.keepProgram()
	if err != nil {
		return err
	}
	return r.state.Run(confine.Service{
		Name: "standins", Path: program,
		Args: []string{"rig", "serve-standins", string(r.state)},
	})
}

func (r *rig) waitNode(ctx context.Context, _ *compiling) error {
	err := r.poll(ctx, "the node is there", func() error {
		_, err := r.kubectl(ctx, nil, "label", "--overwrite", "node", confine.NodeName, "node-role.kubernetes.io/control-plane=")
		return err
	})
	if err != nil {
		return err
	}
	if _, err := r.kubectl(ctx, nil, "wait", "--for=condition=Ready", "--timeout=120s", "node/"+confine.NodeName); err != nil {
		return fmt.Errorf("%w (see %s)", err, r.state.Path("log", "kubelet.log"))
	}
	r.log("the node is ready")
	return nil
}
