package deps

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "opdev.io/guestcluster/"

// imports maps every package that ours depend on to what it imports.
// Packages of this module have no module prefix.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	graph, err := listed()
	if err != nil {
		t.Fatal(err)
	}
	return graph
}

var listed = sync.OnceValues(func() (map[string][]string, error) {
	out, err := exec.Command("go", "list", "-e", "-deps", "-f", `{{.ImportPath}} {{join .Imports " "}}`,
		module+"cmd/...", module+"pkg/...", module+"examples/...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	graph := map[string][]string{}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		names := strings.Fields(strings.ReplaceAll(lines.Text(), module, ""))
		graph[names[0]] = names[1:]
	}
	return graph, lines.Err()
})

// within says whether a package is one of the folders or below one.
func within(name string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return name == f || strings.HasPrefix(name, f+"/") })
}

func ours(name string) bool { return within(name, "cmd", "pkg", "examples", "tasks", "test", "hack") }

// shared packages of the reconcilers and of the steps may be imported by their siblings.
var (
	sharedReconcilers = below("pkg/reconciler", "access", "catalog", "claim", "clocks", "event", "follow", "holder", "index", "metrics", "probe")
	sharedSteps       = append(below("pkg/steps", "bundle", "step", "kube", "virt", "guest", "fakeapi"), "pkg/redact", "pkg/lessee")
)

func below(folder string, names ...string) []string {
	var all []string
	for _, n := range names {
		all = append(all, folder+"/"+n)
	}
	return all
}

// mayImport lists what of ours a package may import; the last matching row decides.
var mayImport = []struct {
	folder string
	allow  []string
}{
	{"cmd/controller", []string{"pkg/reconciler"}},
	{"cmd/steps", []string{"pkg/steps"}},
	{"examples", []string{"pkg/apis", "pkg/steps"}},
	{"pkg/apis", []string{"pkg/apis/guestcluster"}},
	{"pkg/client", []string{"pkg/apis", "pkg/client"}},
	{"pkg/lessee", []string{"pkg/apis"}},
	{"pkg/plan", []string{"pkg/apis", "pkg/lessee"}},
	{"pkg/redact", nil},
	{"pkg/runs", []string{"pkg/apis", "pkg/redact", "pkg/lessee"}},
	{"pkg/reconciler", append([]string{"pkg/apis", "pkg/lessee", "pkg/plan", "pkg/runs", "pkg/client"}, sharedReconcilers...)},
	{"pkg/reconciler/probe", nil},
	{"pkg/steps", []string{"pkg/steps", "pkg/apis"}},
	{"pkg/steps/kube", []string{"pkg/steps/step", "pkg/client", "pkg/apis"}},
}

func allowed(name string) []string {
	var allow []string
	for _, row := range mayImport {
		if within(name, row.folder) {
			allow = row.allow
		}
	}
	switch parts := strings.Split(name, "/"); {
	case strings.HasSuffix(name, "/resources"):
		return []string{"pkg/apis"}
	case within(name, "pkg/reconciler") && len(parts) == 3 && !slices.Contains(sharedReconcilers, name):
		return append(slices.Clone(allow), name)
	case within(name, "pkg/steps") && len(parts) > 2 && name != "pkg/steps/kube":
		return append([]string{"pkg/apis", name}, sharedSteps...)
	}
	return allow
}

func TestOnlyArrowsOfTheDesign(t *testing.T) {
	for name, list := range imports(t) {
		if !within(name, "cmd", "pkg", "examples") {
			continue
		}
		for _, imported := range list {
			if ours(imported) && !within(imported, allowed(name)...) {
				t.Errorf("%s imports %s: it may import only %v of this module (docs/architecture.md)", name, imported, allowed(name))
			}
		}
	}
}

// banned packages must not be reached, by whatever way.
func TestBannedDependencies(t *testing.T) {
	tests := map[string]struct{ from, banned []string }{
		"decisions know no client": {
			from: []string{"pkg/plan"},
			banned: []string{"k8s.io/client-go/kubernetes", "k8s.io/client-go/dynamic", "k8s.io/client-go/informers", "k8s.io/client-go/listers",
				"knative.dev/pkg/controller", "knative.dev/pkg/injection", "github.com/tektoncd", "pkg/client"}},
		"the Tekton contract knows no client": {
			from: []string{"pkg/runs"},
			banned: []string{"k8s.io/client-go/kubernetes", "k8s.io/client-go/informers", "knative.dev/pkg/controller", "knative.dev/pkg/injection",
				"github.com/tektoncd/pipeline/pkg/client", "pkg/client"}},
		"the API types and what a lessee knows know no client": {
			from:   []string{"pkg/apis", "pkg/lessee"},
			banned: []string{"k8s.io/client-go/kubernetes", "knative.dev/pkg/controller", "knative.dev/pkg/injection", "github.com/tektoncd", "pkg/client"}},
		"the step image knows no controller": {
			from: []string{"cmd/steps", "pkg/steps", "examples"},
			banned: []string{"knative.dev/pkg/apis", "knative.dev/pkg/controller", "knative.dev/pkg/injection", "knative.dev/pkg/reconciler", "knative.dev/pkg/logging",
				"github.com/tektoncd", "k8s.io/client-go/informers", "k8s.io/client-go/listers", "pkg/plan", "pkg/runs", "pkg/reconciler"}},
		"the controller knows no step": {
			from: []string{"cmd/controller", "pkg/reconciler"}, banned: []string{"pkg/steps"}},
	}
	graph := imports(t)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for from := range graph {
				if !within(from, tt.from...) {
					continue
				}
				for _, way := range reach(graph, from) {
					if within(way[len(way)-1], tt.banned...) {
						t.Errorf("%s", strings.Join(way, " -> "))
					}
				}
			}
		})
	}
}

// reach returns one way to each package that can be reached.
func reach(graph map[string][]string, from string) [][]string {
	seen, queue := map[string]bool{from: true}, [][]string{{from}}
	var ways [][]string
	for len(queue) > 0 {
		way := queue[0]
		queue, ways = queue[1:], append(ways, way)
		for _, next := range graph[way[len(way)-1]] {
			if !seen[next] {
				seen[next] = true
				queue = append(queue, append(slices.Clone(way), next))
			}
		}
	}
	return ways
}

// The step image must stay small: the clientset of all of Kubernetes does not fit.
func TestStepsUseNoClientset(t *testing.T) {
	graph := imports(t)
	for _, way := range reach(graph, "cmd/steps") {
		if way[len(way)-1] == "k8s.io/client-go/kubernetes" {
			t.Errorf("%s: use a typed client of one group", strings.Join(way, " -> "))
		}
	}
}

// Decisions are pure: nothing that asks the world is imported directly.
func TestPlanImportsOnlyPurePackages(t *testing.T) {
	pure := []string{"bytes", "cmp", "crypto", "encoding", "errors", "fmt", "maps", "math", "slices", "sort", "strconv", "strings", "time",
		"k8s.io/apimachinery", "pkg/apis", "pkg/lessee"}
	for _, imported := range imports(t)["pkg/plan"] {
		if !within(imported, pure...) {
			t.Errorf("pkg/plan imports %s", imported)
		}
	}
}

// Time, environment and context come from outside, so that tests can set them.
func TestNothingAsksTheWorld(t *testing.T) {
	rules := []struct {
		folder, call string
		except       []string
	}{
		{"pkg", "time.Now(", []string{"pkg/client", "pkg/steps/step/retry.go", "pkg/steps/guest/fakeguest"}},
		{"pkg", "time.Since(", []string{"pkg/client", "pkg/steps/step/retry.go"}},
		{"pkg/reconciler", "time.Sleep(", nil},
		{"pkg", "os.Getenv(", []string{"pkg/client"}},
		{"pkg/plan", "rand.", nil},
		{"pkg/reconciler", "context.Background()", nil},
	}
	for path, text := range sources(t, "pkg") {
		for _, rule := range rules {
			if within(path, rule.folder) && strings.Contains(text, rule.call) && !within(path, rule.except...) {
				t.Errorf("%s calls %s: let the caller give it", path, rule.call)
			}
		}
	}
}

// sources are the Go files below a folder of the module that are no tests.
func sources(t *testing.T, folder string) map[string]string {
	t.Helper()
	root := filepath.Join("..", "..")
	found := map[string]string{}
	err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		found[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("no sources in %s: %v", folder, err)
	}
	return found
}
