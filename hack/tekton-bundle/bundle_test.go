package main

import (
	"bytes"
	"context"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/registry"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	"github.com/tektoncd/pipeline/pkg/resolution/resolver/bundle"
	"sigs.k8s.io/yaml"
)

// resolved is the lessee's Tasks as ko resolve would print them.
func resolved(t *testing.T) map[string]string {
	t.Helper()
	tasks := map[string]string{}
	for _, name := range []string{"acquire-cluster", "release-cluster"} {
		raw, err := os.ReadFile("../../tasks/lessee/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		tasks[name] = strings.ReplaceAll(string(raw), "ko://opdev.io/guestcluster/cmd/steps", "registry.example.com/steps@sha256:"+strings.Repeat("a", 64))
	}
	return tasks
}

// What was pushed is read back by the code of Tekton's bundles resolver.
func TestTektonReadsWhatWePush(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	tasks := resolved(t)
	stream := "---\n" + tasks["acquire-cluster"] + "---\n" + tasks["release-cluster"] + "---\n"
	image := strings.TrimPrefix(server.URL, "http://") + "/guestcluster/tasks:v1"
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := run(context.Background(), []string{"--insecure", image}, strings.NewReader(stream), out); err != nil {
			t.Fatal(err)
		}
	}
	if first.String() != second.String() || !strings.Contains(first.String(), "@sha256:") {
		t.Errorf("printed %q, then %q", &first, &second)
	}
	for name, wanted := range tasks {
		got, err := bundle.GetEntry(context.Background(), authn.DefaultKeychain, bundle.RequestOptions{
			Bundle: strings.TrimSpace(first.String()), EntryName: name, Kind: "task",
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(task(t, []byte(wanted)), task(t, got.Data())); diff != "" {
			t.Errorf("%s changed on the way:\n%s", name, diff)
		}
	}
}

func task(t *testing.T, raw []byte) *pipelinev1.Task {
	t.Helper()
	task := &pipelinev1.Task{}
	if err := yaml.UnmarshalStrict(raw, task); err != nil {
		t.Fatal(err)
	}
	return task
}

func TestRefusesWhatTektonCouldNotUse(t *testing.T) {
	for name, tc := range map[string]struct{ yaml, text string }{
		"nothing":          {"", "0 objects"},
		"an unbuilt image": {"apiVersion: tekton.dev/v1\nkind: Task\nmetadata: {name: a}\nspec: {image: ko://x}\n", "ko://"},
		"a foreign object": {"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n", "no Tekton object"},
		"an object twice":  {strings.Repeat("---\napiVersion: tekton.dev/v1\nkind: Task\nmetadata: {name: a}\n", 2), "twice"},
		"a namespace":      {"apiVersion: tekton.dev/v1\nkind: Task\nmetadata: {name: a, namespace: b}\n", "namespace"},
		"what is not YAML": {"\tx", "yaml"},
	} {
		if _, err := newBundle([]byte(tc.yaml)); err == nil || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: error %v does not contain %q", name, err, tc.text)
		}
	}
}
