package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"opdev.io/guestcluster/test/rig/builds"
	"opdev.io/guestcluster/test/rig/images"
	"opdev.io/guestcluster/test/rig/tekton"
)

const tektonModule = "github.com/tektoncd/pipeline"

// resolveTekton returns Tekton's manifests with images that the registry has:
// from the cache, or compiled by ko.
func (r *rig) resolveTekton(ctx context.Context) ([]byte, error) {
	ko, err := r.builder.Ensure(ctx, builds.Ko)
	if err != nil {
		return nil, err
	}
	if err := r.link(filepath.Join(ko, "ko"), "ko"); err != nil {
		return nil, err
	}
	// Listing what Tekton imports downloads it; ko has no proxy to ask later.
	if _, err := r.goCommand(ctx, "list", "-e", "-deps", "-tags=tools", "./test/rig"); err != nil {
		return nil, err
	}
	dir, err := r.goCommand(ctx, "list", "-m", "-f", "{{.Dir}}", tektonModule)
	if err != nil {
		return nil, err
	}
	prepared, err := tekton.Prepare(filepath.Join(dir, "config"))
	if err != nil {
		return nil, err
	}
	cache, err := r.tektonCache(dir, prepared)
	if err != nil {
		return nil, err
	}
	if images.Saved(cache) {
		return r.restoreTekton(ctx, cache)
	}
	return r.buildTekton(ctx, cache, prepared)
}

// tektonCache names the folder by all that decides the images.
func (r *rig) tektonCache(dir string, prepared []byte) (string, error) {
	base, err := images.Base()
	if err != nil {
		return "", err
	}
	digest, err := base.Digest()
	if err != nil {
		return "", fmt.Errorf("digest of the base image: %w", err)
	}
	modules, err := os.ReadFile(filepath.Join(r.builder.Root, "test", "rig", "third_party", "ko", "go.mod"))
	if err != nil {
		return "", fmt.Errorf("read ko's version: %w", err)
	}
	sum := sha256.Sum256(bytes.Join([][]byte{[]byte(filepath.Base(dir)), prepared, []byte(digest.String()), modules}, []byte{0}))
	return filepath.Join(r.builder.Cache, fmt.Sprintf("tekton-%x", sum[:6])), nil
}

func (r *rig) restoreTekton(ctx context.Context, cache string) ([]byte, error) {
	release, err := os.ReadFile(filepath.Join(cache, "release.yaml"))
	if err != nil {
		return nil, fmt.Errorf("read Tekton from the cache: %w (remove %s to build it again)", err, cache)
	}
	note := r.state.Path("registry", filepath.Base(cache))
	if _, err := os.Stat(note); err == nil {
		return release, nil
	}
	r.log("push Tekton's images from the cache")
	if err := r.images.Restore(ctx, filepath.Join(cache, "images")); err != nil {
		return nil, err
	}
	return release, os.WriteFile(note, nil, 0o644)
}

func (r *rig) buildTekton(ctx context.Context, cache string, prepared []byte) ([]byte, error) {
	r.log("compile Tekton's images")
	cmd := exec.CommandContext(ctx, r.state.Path("bin", "rig"), "exec", "--",
		"env", "KO_DOCKER_REPO="+registryAddress+"/tekton",
		"ko", "resolve", "--base-import-paths", "--sbom=none", "--jobs=2", "-f", "-")
	cmd.Dir, cmd.Stdin = r.builder.Root, bytes.NewReader(prepared)
	var progress bytes.Buffer
	cmd.Stderr = &progress
	release, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("compile Tekton's images: %w\n%s", err, progress.Bytes())
	}
	tmp := cache + ".partial"
	if err := errors.Join(os.RemoveAll(tmp), os.MkdirAll(tmp, 0o755)); err != nil {
		return nil, fmt.Errorf("make the cache of Tekton: %w", err)
	}
	if err := r.images.Save(ctx, filepath.Join(tmp, "images"), tekton.References(release, registryAddress)); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(tmp, "release.yaml"), release, 0o644); err != nil {
		return nil, fmt.Errorf("keep Tekton's manifests: %w", err)
	}
	r.log("compiled Tekton's images")
	return release, os.Rename(tmp, cache)
}

// installTekton applies the manifests and proves them by a TaskRun, which also
// brings the guest image to the node.
func (r *rig) installTekton(ctx context.Context, release []byte) error {
	if err := r.applyOnce(ctx, "tekton", release); err != nil {
		return err
	}
	for _, name := range []string{"tekton-pipelines-controller", "tekton-pipelines-webhook"} {
		if _, err := r.kubectl(ctx, nil, "wait", "-n", "tekton-pipelines", "--for=condition=Available", "--timeout=240s", "deployment/"+name); err != nil {
			return err
		}
	}
	r.log("Tekton is ready")
	return r.checkTekton(ctx)
}

// checkTekton runs one TaskRun per cluster and set of images.
func (r *rig) checkTekton(ctx context.Context) error {
	check := bytes.ReplaceAll(manifest("check.yaml"), []byte("GUEST_IMAGE"), []byte(guestImage))
	if err := r.applyOnce(ctx, "check", check); err != nil {
		return err
	}
	var state []byte
	err := r.poll(ctx, "a TaskRun ends", func() (err error) {
		state, err = r.kubectl(ctx, nil, "get", "-n", "rig-check", "taskrun/check",
			"-o", "jsonpath={.status.conditions[0].status} {.status.conditions[0].message}")
		if err == nil && !bytes.HasPrefix(state, []byte("True")) && !bytes.HasPrefix(state, []byte("False")) {
			err = fmt.Errorf("taskrun check: %s", state)
		}
		return err
	})
	if err != nil || bytes.HasPrefix(state, []byte("True")) {
		return err
	}
	// The next up tries again.
	_, err = r.kubectl(ctx, nil, "delete", "-n", "rig-check", "taskrun/check")
	return errors.Join(fmt.Errorf("the TaskRun that proves Tekton failed: %s", state), err, os.Remove(r.config("applied-check")))
}

func (r *rig) goCommand(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = r.builder.Root
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, failure.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}
