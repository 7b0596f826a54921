package runs

import (
	"time"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const maxFinally = 5 * time.Minute

// limits are the timeouts of one run: pipeline = tasks + finally.
type limits struct {
	pipeline, tasks, finally time.Duration
}

func newLimits(in Input) limits {
	total := in.Timeout
	if total <= 0 {
		total = Timeout(in.Instance.Spec.Provisioning)
	}
	finally := min(maxFinally, total/10)
	return limits{pipeline: total, tasks: total - finally, finally: finally}
}

func (l limits) fields() *pipelinev1.TimeoutFields {
	return &pipelinev1.TimeoutFields{
		Pipeline: &metav1.Duration{Duration: l.pipeline},
		Tasks:    &metav1.Duration{Duration: l.tasks},
		Finally:  &metav1.Duration{Duration: l.finally},
	}
}

// bound gives a task a timeout of at most limit. Without one Tekton takes an
// hour, and 0 means none, whatever the run's own timeouts say.
func bound(task *pipelinev1.PipelineTask, limit time.Duration) {
	if t := task.Timeout; t == nil || t.Duration <= 0 || t.Duration > limit {
		task.Timeout = &metav1.Duration{Duration: limit}
	}
}
