package main

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// kind is what KubeVirt's operator adds to a schema in components/crds.go.
type kind struct {
	name       string
	plural     string
	shortNames []any
	// status is true when status is a subresource. That of a
	// VirtualMachineInstance is not.
	status  bool
	columns []column
}

type column struct {
	name, path, kind, description string
	priority                      int64
}

const readyPath = ".status.conditions[?(@.type=='Ready')].status"

var virtualMachine = kind{
	name: "VirtualMachine", plural: "virtualmachines", shortNames: []any{"vm", "vms"}, status: true,
	columns: []column{
		{name: "Age", path: ".metadata.creationTimestamp", kind: "date"},
		{name: "Status", path: ".status.printableStatus", kind: "string", description: "Human Readable Status"},
		{name: "Ready", path: readyPath, kind: "string"},
	},
}

var virtualMachineInstance = kind{
	name: "VirtualMachineInstance", plural: "virtualmachineinstances", shortNames: []any{"vmi", "vmis"},
	columns: []column{
		{name: "Age", path: ".metadata.creationTimestamp", kind: "date"},
		{name: "Phase", path: ".status.phase", kind: "string"},
		{name: "IP", path: ".status.interfaces[0].ipAddress", kind: "string"},
		{name: "NodeName", path: ".status.nodeName", kind: "string"},
		{name: "Ready", path: readyPath, kind: "string"},
		{name: "Live-Migratable", path: ".status.conditions[?(@.type=='LiveMigratable')].status", kind: "string", priority: 1},
		{name: "Paused", path: ".status.conditions[?(@.type=='Paused')].status", kind: "string", priority: 1},
	},
}

func (k kind) singular() string { return strings.ToLower(k.name) }

// write leaves out version v1alpha3, which has the same schema again.
func (k kind) write(schema string) error {
	var validation map[string]any
	if err := yaml.Unmarshal([]byte(schema), &validation); err != nil {
		return fmt.Errorf("parse the schema of %s: %w", k.name, err)
	}
	if validation["openAPIV3Schema"] == nil {
		return fmt.Errorf("find the schema of %s in %s", k.name, kubevirtModule)
	}
	version := map[string]any{
		"name": "v1", "served": true, "storage": true,
		"schema": validation, "additionalPrinterColumns": k.printerColumns(),
	}
	if k.status {
		version["subresources"] = map[string]any{"status": map[string]any{}}
	}
	head := fmt.Sprintf(header, kubevirtModule, kubevirtFile)
	return write(k.plural+".yaml", head, map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": k.plural + ".kubevirt.io", "labels": map[string]any{"kubevirt.io": ""}},
		"spec": map[string]any{
			"group": "kubevirt.io", "scope": "Namespaced", "versions": []any{version},
			"names": map[string]any{
				"kind": k.name, "listKind": k.name + "List", "plural": k.plural, "singular": k.singular(),
				"shortNames": k.shortNames, "categories": []any{"all"},
			},
		},
	})
}

func (k kind) printerColumns() []any {
	var columns []any
	for _, c := range k.columns {
		printed := map[string]any{"name": c.name, "jsonPath": c.path, "type": c.kind}
		if c.description != "" {
			printed["description"] = c.description
		}
		if c.priority != 0 {
			printed["priority"] = c.priority
		}
		columns = append(columns, printed)
	}
	return columns
}
