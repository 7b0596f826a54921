package plan

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

func TestProgress(t *testing.T) {
	making := func(name string, age time.Duration, change func(*v1alpha1.ClusterInstance)) *v1alpha1.ClusterInstance {
		i := &v1alpha1.ClusterInstance{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(noon.Add(-age))}}
		i.MarkProvisioning(v1alpha1.ReasonRunQueued, "PipelineRun "+name+" waits for Tekton")
		if change != nil {
			change(i)
		}
		return i
	}
	fail := func(i *v1alpha1.ClusterInstance) { i.MarkFailed(v1alpha1.FailureStatus{Reason: "RunFailed"}) }
	ready := func(i *v1alpha1.ClusterInstance) { i.Status.ReadyTime = ptrTime(noon) }
	for name, tt := range map[string]struct {
		instances []*v1alpha1.ClusterInstance
		want      string
	}{
		"nothing is being made": {[]*v1alpha1.ClusterInstance{making("p-0", time.Hour, fail), making("p-1", time.Hour, ready)}, ""},
		"the oldest speaks": {[]*v1alpha1.ClusterInstance{making("p-0", time.Minute, nil), making("p-1", time.Hour, nil)},
			"instance p-1: RunQueued: PipelineRun p-1 waits for Tekton"},
		"a new one has no condition yet": {[]*v1alpha1.ClusterInstance{{ObjectMeta: metav1.ObjectMeta{Name: "p-2"}}}, "instance p-2 was just made"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Progress(tt.instances); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
