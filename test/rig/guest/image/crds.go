package image

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// crdModule has OpenShift's own schemas. It is only read, never compiled.
const crdModule = "github.com/openshift/api@v0.0.0-20250609083529-2b129d95495e"

// crdFiles are the kinds of the parked cluster.
var crdFiles = []string{
	"config/v1/zz_generated.crd-manifests/0000_00_cluster-version-operator_01_clusteroperators.crd.yaml",
	"config/v1/zz_generated.crd-manifests/0000_00_cluster-version-operator_01_clusterversions-Default.crd.yaml",
	"config/v1/zz_generated.crd-manifests/0000_03_config-operator_01_proxies.crd.yaml",
	"config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_apiservers-Default.crd.yaml",
	"config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_dnses.crd.yaml",
	"config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_infrastructures-Default.crd.yaml",
	"config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_ingresses.crd.yaml",
	"config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_networks.crd.yaml",
	"config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_oauths.crd.yaml",
	"machineconfiguration/v1/zz_generated.crd-manifests/0000_80_machine-config_01_kubeletconfigs.crd.yaml",
	"machineconfiguration/v1/zz_generated.crd-manifests/0000_80_machine-config_01_machineconfigpools-Default.crd.yaml",
	"machineconfiguration/v1/zz_generated.crd-manifests/0000_80_machine-config_01_machineconfigs.crd.yaml",
}

func (b *builder) crds(ctx context.Context) ([]map[string]any, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", crdModule)
	cmd.Dir = b.cache
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("download %s: %w: %s", crdModule, err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return nil, fmt.Errorf("find %s: %w", crdModule, err)
	}
	var crds []map[string]any
	for _, name := range crdFiles {
		text, err := os.ReadFile(filepath.Join(module.Dir, name))
		if err != nil {
			return nil, fmt.Errorf("read OpenShift's kinds: %w", err)
		}
		var crd map[string]any
		if err := yaml.Unmarshal(text, &crd); err != nil {
			return nil, fmt.Errorf("parse %s: %w", name, err)
		}
		crds = append(crds, crd)
	}
	return crds, nil
}
