package catalog

import (
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// apis serves resources by group and version, and counts questions.
type apis struct {
	served map[string][]string
	err    error
	asked  int
}

func (a *apis) ServerResourcesForGroupVersion(version string) (*metav1.APIResourceList, error) {
	a.asked++
	if a.err != nil {
		return nil, a.err
	}
	names, ok := a.served[version]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, version)
	}
	return fakeDiscovery{served: names}.ServerResourcesForGroupVersion(version)
}

func TestCheckVirtualization(t *testing.T) {
	kubevirt, cdi := []string{"virtualmachines", "virtualmachineinstances"}, []string{"datavolumes", "datavolumes/source"}
	rows := map[string]struct {
		kind   v1alpha1.ClusterType
		apis   apis
		reason v1alpha1.Reason
		says   string
	}{
		"all is there":     {v1alpha1.TypeCRC, apis{served: map[string][]string{"kubevirt.io/v1": kubevirt, "cdi.kubevirt.io/v1beta1": cdi}}, "", ""},
		"no KubeVirt":      {v1alpha1.TypeCRC, apis{served: map[string][]string{"cdi.kubevirt.io/v1beta1": cdi}}, v1alpha1.ReasonVirtualizationMissing, "kubevirt.io/v1: install OpenShift Virtualization"},
		"half of CDI":      {v1alpha1.TypeCRC, apis{served: map[string][]string{"kubevirt.io/v1": kubevirt, "cdi.kubevirt.io/v1beta1": {"cdis"}}}, v1alpha1.ReasonVirtualizationMissing, "with [datavolumes]"},
		"nobody asks":      {v1alpha1.TypeCustom, apis{}, "", ""},
		"it does not tell": {v1alpha1.TypeCRC, apis{err: errors.New("refused")}, "", "refused"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			err := (&virtualization{discovery: &row.apis}).CheckVirtualization(row.kind, time.Unix(1, 0))
			if Reason(err) != row.reason || (err == nil) != (row.says == "") || (err != nil && !strings.Contains(err.Error(), row.says)) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestVirtualizationIsAskedForOnceAMinute(t *testing.T) {
	served := &apis{err: errors.New("refused")}
	v, now := &virtualization{discovery: served}, time.Unix(1000, 0)
	ask := func(after time.Duration) error {
		now = now.Add(after)
		return v.CheckVirtualization(v1alpha1.TypeCRC, now)
	}
	if err := ask(0); err == nil {
		t.Error("no error")
	}
	served.err = nil
	if err := ask(0); Reason(err) != v1alpha1.ReasonVirtualizationMissing {
		t.Errorf("an error was remembered: %v", err)
	}
	served.served = map[string][]string{"kubevirt.io/v1": {"virtualmachines", "virtualmachineinstances"}, "cdi.kubevirt.io/v1beta1": {"datavolumes"}}
	before := served.asked
	if err := ask(59 * time.Second); err == nil || served.asked != before {
		t.Errorf("asked %d times more: %v", served.asked-before, err)
	}
	if err := ask(time.Second); err != nil {
		t.Error(err)
	}
}
