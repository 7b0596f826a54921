package bundle

import (
	"encoding/json"
	"testing"

	"opdev.io/guestcluster/pkg/steps/bundle/bundletest"
	"opdev.io/guestcluster/pkg/steps/step"
)

type object = bundletest.Object

func part(info object, name string) object { return info[name].(object) }

func disk(info object) object { return part(info, "storage")["diskImages"].([]any)[0].(object) }

func parse(t *testing.T, info object) (*Info, error) {
	t.Helper()
	raw, err := json.Marshal(info)
	if err != nil {
		t.Fatal(err)
	}
	return ParseInfo(raw, source)
}

func TestDescriptionsThatAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(object)
		parts  []string
	}{
		"a schema to come":          {func(i object) { i["version"] = "2.0" }, []string{`version is "2.0"`}},
		"no schema":                 {func(i object) { delete(i, "version") }, []string{`version is ""`}},
		"microshift":                {func(i object) { i["type"] = "microshift" }, []string{`"microshift"`, "preset openshift"}},
		"okd":                       {func(i object) { i["type"] = "okd" }, []string{`"okd"`, "preset openshift"}},
		"another architecture":      {func(i object) { i["arch"] = "arm64" }, []string{`arch is "arm64"`, "amd64"}},
		"another one by name":       {func(i object) { delete(i, "arch"); i["name"] = "crc_libvirt_4.19.3_arm64" }, []string{`arch is "arm64"`}},
		"another driver":            {func(i object) { part(i, "driverInfo")["name"] = "vfkit" }, []string{`"vfkit"`, "libvirt"}},
		"another version":           {func(i object) { part(i, "clusterInfo")["openshiftVersion"] = "4.18.2" }, []string{`"4.18.2"`, "4.19.3"}},
		"another cluster name":      {func(i object) { part(i, "clusterInfo")["baseDomain"] = "local" }, []string{"crc.local", "crc.testing"}},
		"another apps domain":       {func(i object) { part(i, "clusterInfo")["appsDomain"] = "x" }, []string{"appsDomain"}},
		"no disk":                   {func(i object) { part(i, "storage")["diskImages"] = []any{} }, []string{"0 entries"}},
		"two disks":                 {func(i object) { part(i, "storage")["diskImages"] = []any{object{}, object{}} }, []string{"2 entries"}},
		"a raw disk":                {func(i object) { disk(i)["format"] = "raw" }, []string{`"raw"`, "qcow2"}},
		"a disk elsewhere":          {func(i object) { disk(i)["name"] = "../crc.qcow2" }, []string{"diskImages[0].name", "plain name"}},
		"a size that is no string":  {func(i object) { disk(i)["size"] = 12 }, []string{"storage.diskImages.size", "number", "string"}},
		"a size that is no number":  {func(i object) { disk(i)["size"] = "12 GB" }, []string{"size", "12 GB"}},
		"no key":                    {func(i object) { delete(part(i, "clusterInfo"), "sshPrivateKeyFile") }, []string{"sshPrivateKeyFile"}},
		"a key that is the disk":    {func(i object) { part(i, "clusterInfo")["sshPrivateKeyFile"] = "crc.qcow2" }, []string{"sshPrivateKeyFile"}},
		"no kubeconfig":             {func(i object) { part(i, "clusterInfo")["kubeConfig"] = "" }, []string{"kubeConfig"}},
		"a field of another type":   {func(i object) { i["clusterInfo"] = "none" }, []string{"clusterInfo", "string"}},
		"a disk of another length ": {func(i object) { disk(i)["size"] = "-5" }, []string{"size"}},
	} {
		t.Run(name, func(t *testing.T) {
			info := bundletest.Info()
			tt.change(info)
			_, err := parse(t, info)
			wants(t, err, step.ExitUser, append(tt.parts, InfoName)...)
		})
	}
	_, err := ParseInfo([]byte("<html>"), source)
	wants(t, err, step.ExitUser, InfoName)
}

func TestDescriptionsOfOldAndCustomBundles(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(object)
		built  string
	}{
		"custom":             {func(i object) { i["type"] = "snc_custom" }, "2026-01-02T03:04:05Z"},
		"before schema 1.4":  {func(i object) { i["version"] = "1.3"; delete(i, "arch") }, "2026-01-02T03:04:05Z"},
		"Go's own time":      {func(i object) { part(i, "buildInfo")["buildTime"] = "2026-01-02 05:04:05.123456789 +0200 CEST m=+12.5" }, "2026-01-02T03:04:05Z"},
		"no time":            {func(i object) { delete(i, "buildInfo") }, ""},
		"an unreadable time": {func(i object) { part(i, "buildInfo")["buildTime"] = "last Tuesday" }, ""},
		"names of its own": {func(i object) {
			disk(i)["name"] = "product.qcow2"
			part(i, "clusterInfo")["sshPrivateKeyFile"] = "id_rsa_crc"
		}, "2026-01-02T03:04:05Z"},
	} {
		t.Run(name, func(t *testing.T) {
			info := bundletest.Info()
			tt.change(info)
			got, err := parse(t, info)
			if err != nil || got.BuildTime != tt.built {
				t.Errorf("%+v: %v", got, err)
			}
			if got != nil && (got.Disk != disk(info)["name"] || got.Key != part(info, "clusterInfo")["sshPrivateKeyFile"]) {
				t.Errorf("%+v", got)
			}
		})
	}
}
