package runs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// BundleTimeout is the time that all attempts to prepare a bundle may take: 5
// GB over a slow line, then 31 GiB to a slow disk.
const BundleTimeout = 4 * time.Hour

// bundleServiceAccount is what a person's run takes when it names none, too.
const bundleServiceAccount = "default"

const pipelineLabel = "tekton.dev/pipeline"

var bundleResults = []string{ResultGoldenVolume, ResultGoldenVolumeUID, ResultSSHKeySecret, ResultOCPVersion, ResultSHA256, ResultBuildTime}

// BundleInput is everything a prepare-bundle run is built from.
type BundleInput struct {
	// Bundle is the owner; its spec can no longer change.
	Bundle *v1alpha1.CRCBundle
	// Pipeline and the Tasks it refers to, by name.
	Pipeline *pipelinev1.Pipeline
	Tasks    map[string]*pipelinev1.Task
	// Attempt counts from 0.
	Attempt int32
	// Timeout of this run; zero means BundleTimeout.
	Timeout time.Duration
}

// ValidateBundle says whether runs of the Pipeline can be built.
func ValidateBundle(pipeline *pipelinev1.Pipeline, tasks map[string]*pipelinev1.Task) error {
	problem := cmp.Or(bundleParamProblem(pipeline.Spec.Params), bundleResultProblem(pipeline.Spec.Results),
		workspaceProblem(pipeline.Spec.Workspaces), tasksProblem(slices.Concat(pipeline.Spec.Tasks, pipeline.Spec.Finally), tasks))
	if problem != "" {
		return &InvalidError{Pipeline: pipeline.Name, Problem: problem}
	}
	return nil
}

func bundleParamProblem(declared pipelinev1.ParamSpecs) string {
	values := bundleValues(&v1alpha1.CRCBundle{})
	for _, name := range []string{ParamVersion, ParamArch, ParamBundleUID} {
		if !slices.ContainsFunc(declared, func(p pipelinev1.ParamSpec) bool { return p.Name == name }) {
			return fmt.Sprintf("declare the param %q: the controller hands it to every preparation", name)
		}
	}
	for _, p := range declared {
		if _, ok := values[p.Name]; !ok && p.Default == nil {
			return fmt.Sprintf("param %q has no default and nobody fills it: give it a default", p.Name)
		}
	}
	return ""
}

func bundleResultProblem(declared []pipelinev1.PipelineResult) string {
	for _, name := range bundleResults {
		if !slices.ContainsFunc(declared, func(r pipelinev1.PipelineResult) bool { return r.Name == name }) {
			return fmt.Sprintf("declare the result %q", name)
		}
	}
	return ""
}

// BuildBundle makes the prepare-bundle run of one attempt, with Pipeline and
// Tasks inlined like those of instances.
func BuildBundle(in BundleInput) (*pipelinev1.PipelineRun, error) {
	if err := ValidateBundle(in.Pipeline, in.Tasks); err != nil {
		return nil, err
	}
	limits := newLimits(Input{Timeout: cmp.Or(in.Timeout, BundleTimeout)})
	meta := in.Bundle.ChildMeta(in.Bundle.RunName(in.Attempt))
	meta.Labels[guestcluster.AttemptLabel] = fmt.Sprint(in.Attempt)
	return &pipelinev1.PipelineRun{
		ObjectMeta: meta,
		Spec: pipelinev1.PipelineRunSpec{
			PipelineSpec: inline(in.Pipeline, in.Tasks, limits),
			Params:       fill(in.Pipeline.Spec.Params, bundleValues(in.Bundle)),
			Timeouts:     limits.fields(),
			TaskRunTemplate: pipelinev1.PipelineTaskRunTemplate{
				ServiceAccountName: bundleServiceAccount, PodTemplate: podTemplate(),
			},
		},
	}, nil
}

func bundleValues(b *v1alpha1.CRCBundle) map[string]string {
	size := ""
	if b.Spec.GoldenVolumeSize != nil {
		size = b.Spec.GoldenVolumeSize.String()
	}
	return map[string]string{
		ParamVersion:          b.Spec.Version,
		ParamArch:             b.Spec.Arch,
		ParamBundleURL:        b.Spec.BundleURL,
		ParamSHA256URL:        b.Spec.SHA256URL,
		ParamSHA256:           b.Spec.SHA256,
		ParamStorageClass:     b.Spec.StorageClassName,
		ParamGoldenVolumeSize: size,
		ParamBundleUID:        string(b.UID),
	}
}

// PreparesBundle says whether a run is one of Pipeline prepare-bundle. The
// label, which Tekton sets when it first looks at a run, is all that a trimmed
// informer knows.
func PreparesBundle(run *pipelinev1.PipelineRun) bool {
	ref := run.Spec.PipelineRef
	return run.Labels[pipelineLabel] == PrepareBundle || (ref != nil && ref.Resolver == "" && ref.Name == PrepareBundle)
}

// BundleSpec is the spec of the bundle that a person's run prepares, from its
// params. Without a version there is none.
func BundleSpec(run *pipelinev1.PipelineRun) (v1alpha1.CRCBundleSpec, bool) {
	given := map[string]string{}
	for _, p := range run.Spec.Params {
		given[p.Name] = strings.TrimSpace(p.Value.StringVal)
	}
	spec := v1alpha1.CRCBundleSpec{
		Version: given[ParamVersion], Arch: cmp.Or(given[ParamArch], v1alpha1.DefaultArch),
		BundleURL: given[ParamBundleURL], SHA256URL: given[ParamSHA256URL], SHA256: given[ParamSHA256],
		StorageClassName: given[ParamStorageClass],
	}
	if size, err := resource.ParseQuantity(given[ParamGoldenVolumeSize]); err == nil {
		spec.GoldenVolumeSize = &size
	}
	return spec, spec.Version != ""
}

// BundleFailure diagnoses a prepare-bundle run like Failure.
func BundleFailure(run *pipelinev1.PipelineRun, taskRuns []*pipelinev1.TaskRun) v1alpha1.FailureStatus {
	failure := Failure(run, taskRuns)
	if said, ok := strings.CutPrefix(failure.Message, hint(ExitUser)); ok && failure.ExitCode == ExitUser {
		failure.Message = "the version or the bundle's spec needs a change: " + said
	}
	return failure
}
