package v1alpha1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBundleOfAnInstance(t *testing.T) {
	rows := map[string]struct {
		kind     ClusterType
		template ClusterTemplate
		want     string
	}{
		"a version names it":         {TypeCRC, ClusterTemplate{CRCVersion: "4.19.3"}, "crc-4.19.3-amd64"},
		"with its architecture":      {TypeCRC, ClusterTemplate{CRCVersion: "4.19.3", CRCArch: "arm64"}, "crc-4.19.3-arm64"},
		"a version wins over image":  {TypeCRC, ClusterTemplate{CRCVersion: "4.19.3", ReleaseImage: "https://x"}, "crc-4.19.3-amd64"},
		"an image needs none":        {TypeCRC, ClusterTemplate{ReleaseImage: "https://x"}, ""},
		"other topologies have none": {TypeCustom, ClusterTemplate{CRCVersion: "4.19.3"}, ""},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			i := instance("clusters", "crc-0", "uid")
			i.Spec.Type, i.Spec.Template = row.kind, row.template
			if got := i.Bundle(); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func TestMachineIsRecordedBesideTheBundle(t *testing.T) {
	i := instance("clusters", "crc-0", "uid")
	if i.ChosenBundle() != nil || i.VMIUID() != "" {
		t.Error("a new instance has a bundle or a machine")
	}
	chosen := BundleIdentity{Name: "crc-4.19.3-amd64", UID: "b", VolumeUID: "v"}
	i.MarkBundle(chosen)
	i.MarkMachine("m1")
	i.MarkMachine("m2")
	want := &CRCStatus{VMName: i.DerivedName(), DataVolumeName: i.DerivedName(), VMIUID: "m2", Bundle: &chosen}
	if diff := cmp.Diff(want, i.Status.CRC); diff != "" {
		t.Error(diff)
	}
}
