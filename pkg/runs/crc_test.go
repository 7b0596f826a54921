package runs

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// crcPipeline declares what provision-crc does.
func crcPipeline() *pipelinev1.Pipeline {
	p := goodPipeline()
	p.Spec.Params = p.Spec.Params[:2]
	for _, name := range crcParams {
		p.Spec.Params = append(p.Spec.Params, param(name, nil))
	}
	return p
}

func TestParamsOfCRC(t *testing.T) {
	memory, size := resource.MustParse("20Gi"), resource.MustParse("100Gi")
	bundle := &v1alpha1.BundleIdentity{Name: "crc-4.19.3-arm64", UID: "b", VolumeUID: "v"}
	rows := map[string]struct {
		template v1alpha1.ClusterTemplate
		bundle   *v1alpha1.BundleIdentity
		want     map[string]string
	}{
		"a bundle, all else by default": {v1alpha1.ClusterTemplate{CRCVersion: "4.19.3", CRCArch: "arm64", ReleaseImage: "https://ignored"}, bundle, map[string]string{
			ParamSourceNamespace: "guestcluster-bundles", ParamSourceVolume: "crc-4.19.3-arm64", ParamSourceURL: "",
			ParamRootVolumeSize: "80Gi", ParamStorageClass: "", ParamMemory: "14Gi", ParamCores: "4", ParamNodeSelector: "", ParamArch: "arm64",
		}},
		"no bundle was recorded": {v1alpha1.ClusterTemplate{CRCVersion: "4.19.3"}, nil, map[string]string{
			ParamSourceNamespace: "", ParamSourceVolume: "", ParamSourceURL: "",
			ParamRootVolumeSize: "80Gi", ParamStorageClass: "", ParamMemory: "14Gi", ParamCores: "4", ParamNodeSelector: "", ParamArch: "amd64",
		}},
		"an image, all else given": {v1alpha1.ClusterTemplate{
			ReleaseImage: "https://files/crc.qcow2", Memory: &memory, RootVolumeSize: &size, Cores: 8, StorageClassName: "fast",
			VMNodeSelector: map[string]v1alpha1.LabelValue{"zone": "b", "disk": ""},
		}, nil, map[string]string{
			ParamSourceNamespace: "", ParamSourceVolume: "", ParamSourceURL: "https://files/crc.qcow2",
			ParamRootVolumeSize: "100Gi", ParamStorageClass: "fast", ParamMemory: "20Gi", ParamCores: "8", ParamNodeSelector: "disk=,zone=b", ParamArch: "amd64",
		}},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			run := build(t, func(in *Input) {
				in.Pipeline = crcPipeline()
				in.Instance.Spec.Type, in.Instance.Spec.Template = v1alpha1.TypeCRC, row.template
				in.Instance.Status.CRC = &v1alpha1.CRCStatus{Bundle: row.bundle}
			})
			got := map[string]string{}
			for _, p := range run.Spec.Params[2:] {
				got[p.Name] = p.Value.StringVal
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A custom Pipeline may have a param of the same name, which is its own.
func TestParamsOfCRCAreFreeElsewhere(t *testing.T) {
	pipeline := goodPipeline()
	pipeline.Spec.Params = append(pipeline.Spec.Params, param(ParamMemory, nil))
	template := &v1alpha1.ClusterTemplate{Params: map[string]v1alpha1.ParamValue{ParamMemory: "1Ti"}}
	if err := Validate(v1alpha1.TypeCustom, pipeline, goodTasks(), template); err != nil {
		t.Errorf("custom: %v", err)
	}
	if err := Validate(v1alpha1.TypeCRC, pipeline, goodTasks(), template); err == nil {
		t.Error("crc: a template may set what the controller fills")
	}
}
