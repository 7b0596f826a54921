package rigtest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	tekton "github.com/tektoncd/pipeline/pkg/client/clientset/versioned"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	versioned "opdev.io/guestcluster/pkg/client/clientset/versioned"
)

// Rig is a running rig, seen from the machine.
type Rig struct {
	Kube    kubernetes.Interface
	Tekton  tekton.Interface
	Guest   versioned.Interface
	Dynamic dynamic.Interface
	Config  *rest.Config
	// Root is the repository; manifests are named relative to it.
	Root string
	// program is the rig's own binary, state its folder.
	program, state string
	// GuestImage is the rig's image with kube-apiserver, etcd and kubectl.
	GuestImage string
}

// Connect finds the running rig.
func Connect() (*Rig, error) {
	state := envOr("RIG_STATE", "/var/lib/guestcluster-rig")
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(state, "kubeconfig"))
	if err != nil {
		return nil, fmt.Errorf("read the rig's kubeconfig (is the rig up? make rig-up): %w", err)
	}
	cfg.QPS, cfg.Burst = 100, 200
	root, err := repository()
	if err != nil {
		return nil, err
	}
	r := &Rig{
		Config: cfg, Root: root, state: state,
		program: filepath.Join(envOr("RIG_CACHE", filepath.Join(os.Getenv("HOME"), ".cache/guestcluster-rig")), "rig"),
	}
	if r.GuestImage, err = stateValue(state, "RIG_GUEST_IMAGE"); err != nil {
		return nil, err
	}
	return r, r.clients()
}

func (r *Rig) clients() (err error) {
	if r.Kube, err = kubernetes.NewForConfig(r.Config); err != nil {
		return err
	}
	if r.Tekton, err = tekton.NewForConfig(r.Config); err != nil {
		return err
	}
	if r.Guest, err = versioned.NewForConfig(r.Config); err != nil {
		return err
	}
	r.Dynamic, err = dynamic.NewForConfig(r.Config)
	return err
}

// Exec runs a command inside the rig and returns what it printed.
func (r *Rig) Exec(ctx context.Context, stdin string, command ...string) (string, error) {
	cmd := exec.CommandContext(ctx, r.program, append([]string{"exec", "--"}, command...)...)
	cmd.Dir = r.Root
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w\n%s%s", strings.Join(command, " "), err, out.String(), errs.String())
	}
	return out.String(), nil
}

// Apply resolves and applies manifests, files or folders relative to the
// repository, with the guest image in place of the examples' placeholder.
func (r *Rig) Apply(ctx context.Context, namespace string, paths ...string) error {
	args := []string{"ko", "resolve"}
	for _, p := range paths {
		args = append(args, "-f", p)
	}
	resolved, err := r.Exec(ctx, "", args...)
	if err != nil {
		return err
	}
	return r.ApplyText(ctx, namespace, resolved)
}

// ApplyText applies YAML documents.
func (r *Rig) ApplyText(ctx context.Context, namespace, text string) error {
	args := []string{"kubectl", "apply", "-f", "-"}
	if namespace != "" {
		args = append(args, "-n", namespace)
	}
	_, err := r.Exec(ctx, strings.ReplaceAll(text, PlaceholderImage, r.GuestImage), args...)
	return err
}

// PlaceholderImage is the image in examples/ that users replace by their own.
const PlaceholderImage = "registry.example.com/guest-kubernetes:latest"

// Wait asks until done is true; the last reason is in the error.
func Wait(ctx context.Context, what string, limit time.Duration, ask func(context.Context) (done bool, reason string, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	last := "never asked"
	for {
		done, reason, err := ask(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			last = err.Error()
		case done:
			return nil
		case ctx.Err() == nil:
			last = reason
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %s; last seen: %s", what, limit, last)
		case <-tick.C:
		}
	}
}

func stateValue(state, key string) (string, error) {
	text, err := os.ReadFile(filepath.Join(state, "env"))
	if err != nil {
		return "", fmt.Errorf("read the rig's env: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(strings.TrimPrefix(strings.TrimSpace(line), "export "), key+"="); ok {
			return strings.Trim(v, `"'`), nil
		}
	}
	return "", fmt.Errorf("the rig's env does not name %s", key)
}

func repository() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

func envOr(key, fallback string) string {
	if v := os.Getenv(key); v != "" {
		return v
	}
	return fallback
}

// BootKey is the private key that the disk on the mirror trusts.
func (r *Rig) BootKey() ([]byte, error) {
	return os.ReadFile(filepath.Join(r.state, "bundle", "id_ecdsa_crc"))
}

// Program is the rig's own binary.
func (r *Rig) Program() string { return r.program }
