package tasks

import (
	"flag"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/steps"
)

const stepsImage = "ko://opdev.io/guestcluster/cmd/steps"

var (
	paramRef     = regexp.MustCompile(`\$\(params\.([a-z0-9-]+)\)`)
	resultPath   = regexp.MustCompile(`\$\(results\.([a-z0-9-]+)\.path\)`)
	workspaceRef = regexp.MustCompile(`\$\(workspaces\.([a-z0-9-]+)\.(?:path|bound)\)`)
	envRef       = regexp.MustCompile(`\$\(([A-Z_]+)\)`)
)

// Flags and args must agree, or a step fails in the cluster and not here.
func TestEveryStepKnowsItsFlagsAndIsGivenAll(t *testing.T) {
	found := 0
	for where, spec := range load(t).taskSpecs() {
		for _, step := range spec.Steps {
			if step.Image != stepsImage {
				continue
			}
			found++
			command, ok := steps.Find(step.Args[0])
			if !ok {
				t.Errorf("%s: no step is named %q", where, step.Args[0])
				continue
			}
			checkFlags(t, where, command.Flags(), step.Args[1:])
		}
	}
	if found < len(steps.Table()) {
		t.Errorf("%d Tasks for %d steps", found, len(steps.Table()))
	}
}

func checkFlags(t *testing.T, where string, flags *flag.FlagSet, args []string) {
	t.Helper()
	given := map[string]bool{}
	for _, arg := range args {
		name, value, ok := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if !ok || !strings.HasPrefix(arg, "--") {
			t.Errorf("%s: %q is not --flag=value", where, arg)
		}
		if flags.Lookup(name) == nil {
			t.Errorf("%s: the step has no flag --%s", where, name)
		}
		given[name] = true
		checkName(t, where, name, value)
	}
	flags.VisitAll(func(f *flag.Flag) {
		if !given[f.Name] {
			t.Errorf("%s: flag --%s is not given", where, f.Name)
		}
	})
}

// checkName: a param goes to the flag of its own name, a result to <name>-path.
func checkName(t *testing.T, where, name, value string) {
	t.Helper()
	if m := paramRef.FindStringSubmatch(value); m != nil && m[1] != name {
		t.Errorf("%s: param %q goes to flag --%s", where, m[1], name)
	}
	if m := resultPath.FindStringSubmatch(value); m != nil && m[1]+"-path" != name {
		t.Errorf("%s: result %q goes to flag --%s", where, m[1], name)
	}
}

func TestDeclarationsAreUsedAndUsesDeclared(t *testing.T) {
	for where, spec := range load(t).taskSpecs() {
		var results, workspaces, env []string
		for _, r := range spec.Results {
			results = append(results, r.Name)
		}
		for _, w := range spec.Workspaces {
			workspaces = append(workspaces, w.Name)
		}
		body := text(t, []any{spec.Steps, spec.Volumes})
		for _, step := range spec.Steps {
			for _, e := range step.Env {
				env = append(env, e.Name)
			}
		}
		sameNames(t, where, "param", paramNames(spec.Params), references(body, paramRef))
		sameNames(t, where, "result", results, references(body, resultPath))
		sameNames(t, where, "workspace", workspaces, references(body, workspaceRef))
		for _, name := range references(body, envRef) {
			if !hasPrefix(env, name) {
				t.Errorf("%s uses the undeclared variable %s", where, name)
			}
		}
	}
}

func TestEveryParamAndResultIsDescribed(t *testing.T) {
	s := load(t)
	described := func(where string, params pipelinev1.ParamSpecs) {
		for _, p := range params {
			if p.Description == "" {
				t.Errorf("%s: param %q has no description", where, p.Name)
			}
		}
	}
	for where, spec := range s.taskSpecs() {
		described(where, spec.Params)
		for _, r := range spec.Results {
			if r.Description == "" {
				t.Errorf("%s: result %q has no description", where, r.Name)
			}
		}
	}
	for name, pipeline := range s.pipelines {
		described("Pipeline "+name, pipeline.Spec.Params)
	}
}

// Pod Security restricted refuses the first three, a ResourceQuota the fourth,
// an air-gapped registry the fifth.
func TestEveryStepRunsEverywhere(t *testing.T) {
	for where, spec := range load(t).taskSpecs() {
		for _, step := range spec.Steps {
			at := where + ", step " + step.Name
			if step.Name == "" {
				t.Errorf("%s: a step has no name", where)
			}
			checkSecurity(t, at, step.SecurityContext)
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				_, requested := step.ComputeResources.Requests[name]
				if _, limited := step.ComputeResources.Limits[name]; !requested || !limited {
					t.Errorf("%s: computeResources lack %s", at, name)
				}
			}
			if len(step.Command) == 0 {
				t.Errorf("%s: without command Tekton looks the entrypoint up in the registry", at)
			}
			if step.Script != "" {
				t.Errorf("%s has a script", at)
			}
			checkImage(t, at, &step)
		}
	}
}

func checkSecurity(t *testing.T, at string, s *corev1.SecurityContext) {
	t.Helper()
	switch {
	case s == nil:
		t.Errorf("%s has no securityContext", at)
	case s.RunAsNonRoot == nil || !*s.RunAsNonRoot,
		s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation,
		s.Capabilities == nil || len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL",
		s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault:
		t.Errorf("%s is not restricted", at)
	case s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem:
		t.Errorf("%s may write to its root file system", at)
	case s.RunAsUser != nil || s.RunAsGroup != nil:
		t.Errorf("%s sets a user, which OpenShift assigns", at)
	}
}

func checkImage(t *testing.T, at string, step *pipelinev1.Step) {
	t.Helper()
	path, ours := strings.CutPrefix(step.Image, "ko://")
	switch {
	case ours:
		if want := "/ko-app/" + filepath.Base(path); step.Command[0] != want || len(step.Command) != 1 {
			t.Errorf("%s: command %v, want [%s]", at, step.Command, want)
		}
	case !paramRef.MatchString(step.Image):
		t.Errorf("%s: image %q is neither ko:// nor a param", at, step.Image)
	}
}

// A PVC workspace would start the affinity assistant.
func TestNoPersistentVolumeWorkspaces(t *testing.T) {
	for name, run := range load(t).runs {
		for _, w := range run.Spec.Workspaces {
			if w.PersistentVolumeClaim != nil || w.VolumeClaimTemplate != nil {
				t.Errorf("PipelineRun %s: workspace %s is a PVC", name, w.Name)
			}
		}
	}
}

// Installed Tasks live in the controller's namespace, the lessee's wherever CI
// applies them.
func TestFilesAreNamedForWhatTheyHold(t *testing.T) {
	for _, d := range load(t).docs {
		dir := filepath.Dir(d.file)
		if d.kind != "Task" && d.kind != "Pipeline" || dir == "../examples" {
			continue
		}
		if !d.alone || filepath.Base(d.file) != d.name+".yaml" {
			t.Errorf("%s holds %s %s, and it should alone", d.file, d.kind, d.name)
		}
		wanted := []string{guestcluster.SystemNamespace, guestcluster.BundleNamespace}
		if dir == "lessee" {
			wanted = []string{""}
		}
		if !slices.Contains(wanted, d.namespace) {
			t.Errorf("%s is in namespace %q, want one of %q", d.file, d.namespace, wanted)
		}
	}
}
