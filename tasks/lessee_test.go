package tasks

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/lessee"
)

// CustomRuns have no Task: what pkg/lessee declares for them must be what the
// Tasks declare, or a pipeline could not change from one to the other.
func TestTasksAndCustomRunsAgree(t *testing.T) {
	tasks := load(t).tasks
	for name, want := range map[string]map[string]string{"acquire-cluster": lessee.AcquireParams(), "release-cluster": lessee.ReleaseParams()} {
		got := map[string]string{}
		for _, p := range tasks[name].Spec.Params {
			got[p.Name] = ""
			if p.Default != nil {
				got[p.Name] = p.Default.StringVal
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("params of %s: %s", name, diff)
		}
	}
	var want, got []string
	for _, r := range lessee.Results(&v1alpha1.ClusterLease{}) {
		want = append(want, r.Name)
	}
	for _, r := range tasks["acquire-cluster"].Spec.Results {
		got = append(got, r.Name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results: %s", diff)
	}
}
