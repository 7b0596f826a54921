package runs

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// Params that the controller fills when the Pipeline declares them.
const (
	ParamInstance         = "instance"
	ParamNamespace        = "namespace"
	ParamInstanceUID      = "instance-uid"
	ParamAPIHost          = "api-host"
	ParamKubeconfigSecret = "kubeconfig-secret"
	ParamIdentitySecret   = "identity-secret"
	ParamService          = "service"
	ParamOCPVersion       = "ocp-version"
)

// Params of crc, which the controller fills too.
const (
	// ParamSourceNamespace and ParamSourceVolume name the golden volume to clone.
	ParamSourceNamespace = "source-namespace"
	ParamSourceVolume    = "source-volume"
	// ParamSourceURL is the disk image to import when there is no golden volume.
	ParamSourceURL      = "source-url"
	ParamRootVolumeSize = "root-volume-size"
	ParamStorageClass   = "storage-class"
	ParamMemory         = "memory"
	ParamCores          = "cores"
	// ParamNodeSelector is key=value,key=value.
	ParamNodeSelector = "node-selector"
	ParamArch         = "arch"
)

// Params and results of prepare-bundle.
const (
	ParamVersion          = "version"
	ParamBundleURL        = "bundle-url"
	ParamSHA256URL        = "sha256-url"
	ParamSHA256           = "sha256"
	ParamGoldenVolumeSize = "golden-volume-size"
	ParamBundleUID        = "bundle-uid"

	ResultGoldenVolume    = "golden-volume"
	ResultGoldenVolumeUID = "golden-volume-uid"
	ResultSSHKeySecret    = "ssh-key-secret"
	ResultSHA256          = "sha256"
	ResultBuildTime       = "build-time"
)

// PrepareBundle is the name of the Pipeline that prepares bundles.
const PrepareBundle = "prepare-bundle"

// Results that every provisioning Pipeline declares.
const (
	ResultAPIEndpoint = "api-endpoint"
	ResultOCPVersion  = "ocp-version"
	// ResultFailure is the optional result of a Task in which a failing step says why.
	ResultFailure = "failure"
)

// What the finally task of crc leaves of a guest that failed.
const (
	// TaskGather is its name in the Pipeline.
	TaskGather = "gather"
	// ResultConfigMap is its result: the name of the ConfigMap.
	ResultConfigMap = "configmap"
)

const defaultTimeout = time.Hour

var (
	requiredParams  = []string{ParamInstance, ParamNamespace}
	requiredResults = []string{ResultAPIEndpoint, ResultOCPVersion}
	filledParams    = []string{ParamInstance, ParamNamespace, ParamInstanceUID, ParamAPIHost,
		ParamKubeconfigSecret, ParamIdentitySecret, ParamService, ParamOCPVersion}
	crcParams = []string{ParamSourceNamespace, ParamSourceVolume, ParamSourceURL, ParamRootVolumeSize, ParamStorageClass,
		ParamMemory, ParamCores, ParamNodeSelector, ParamArch}
)

// InvalidError says what is wrong with a Pipeline and what to do about it.
type InvalidError struct {
	// Pipeline is the name of the Pipeline.
	Pipeline string
	// Problem is the first thing that breaks the contract.
	Problem string
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("Pipeline %q: %s", e.Pipeline, e.Problem)
}

// Input is everything a run is built from.
type Input struct {
	// Instance is the owner; its status.apiEndpoint is assigned.
	Instance *v1alpha1.ClusterInstance
	// Pipeline and the Tasks it refers to, by name.
	Pipeline *pipelinev1.Pipeline
	Tasks    map[string]*pipelinev1.Task
	// Attempt counts from 0.
	Attempt int32
	// Timeout of this run; zero means the instance's provisioning timeout.
	Timeout time.Duration
}

// Timeout is the time that all attempts to provision an instance may take.
func Timeout(p *v1alpha1.Provisioning) time.Duration {
	if p == nil || p.Timeout == nil {
		return defaultTimeout
	}
	return p.Timeout.Duration.Duration
}

// Validate says whether runs of the Pipeline can be built for a type and a template.
func Validate(kind v1alpha1.ClusterType, pipeline *pipelinev1.Pipeline, tasks map[string]*pipelinev1.Task, template *v1alpha1.ClusterTemplate) error {
	if problem := findProblem(kind, pipeline, tasks, template); problem != "" {
		return &InvalidError{Pipeline: pipeline.Name, Problem: problem}
	}
	return nil
}

// Build makes the PipelineRun of one attempt, with Pipeline and Tasks inlined:
// an upgrade in mid-run cannot break it and no resolver is needed.
func Build(in Input) (*pipelinev1.PipelineRun, error) {
	i := in.Instance
	if err := Validate(i.Spec.Type, in.Pipeline, in.Tasks, &i.Spec.Template); err != nil {
		return nil, err
	}
	limits := newLimits(in)
	meta := i.ChildMeta(i.RunName(in.Attempt))
	meta.Labels[guestcluster.AttemptLabel] = fmt.Sprint(in.Attempt)
	run := &pipelinev1.PipelineRun{
		ObjectMeta: meta,
		Spec: pipelinev1.PipelineRunSpec{
			PipelineSpec: inline(in.Pipeline, in.Tasks, limits),
			Params:       params(in),
			Timeouts:     limits.fields(),
			TaskRunTemplate: pipelinev1.PipelineTaskRunTemplate{
				ServiceAccountName: i.DerivedName(), PodTemplate: podTemplate(),
			},
		},
	}
	return run, nil
}

// params fills what the Pipeline declares; Validate has seen that the rest has defaults.
func params(in Input) pipelinev1.Params {
	values := values(in.Instance)
	if in.Instance.Spec.Type == v1alpha1.TypeCRC {
		maps.Copy(values, crcValues(in.Instance))
	}
	for name, value := range in.Instance.Spec.Template.Params {
		values[name] = string(value)
	}
	return fill(in.Pipeline.Spec.Params, values)
}

// fill hands over what is declared; an empty value leaves the default.
func fill(declared pipelinev1.ParamSpecs, values map[string]string) pipelinev1.Params {
	var out pipelinev1.Params
	for _, p := range declared {
		value, ok := values[p.Name]
		if !ok || (value == "" && p.Default != nil) {
			continue
		}
		out = append(out, pipelinev1.Param{Name: p.Name, Value: *pipelinev1.NewStructuredValues(value)})
	}
	return out
}

func values(i *v1alpha1.ClusterInstance) map[string]string {
	return map[string]string{
		ParamInstance:         i.Name,
		ParamNamespace:        i.Namespace,
		ParamInstanceUID:      string(i.UID),
		ParamAPIHost:          host(i.Status.APIEndpoint),
		ParamKubeconfigSecret: i.KubeconfigSecretName(),
		ParamIdentitySecret:   i.IdentitySecretName(),
		ParamService:          i.DerivedName(),
		ParamOCPVersion:       i.Spec.Template.OCPVersion,
	}
}

func host(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return strings.TrimPrefix(endpoint, "https://")
	}
	return u.Hostname()
}

// filled says whether the controller fills a param for instances of a type.
func filled(kind v1alpha1.ClusterType, name string) bool {
	return slices.Contains(filledParams, name) || (kind == v1alpha1.TypeCRC && slices.Contains(crcParams, name))
}
