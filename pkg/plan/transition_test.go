package plan

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

func TestRunEnded(t *testing.T) {
	run := &v1alpha1.RunStatus{Name: "r-0", UID: "u"}
	failed := func(reason v1alpha1.Reason, run string) RunRecord {
		return RunRecord{Run: &v1alpha1.RunStatus{Name: "r-0", UID: "u"}, Failure: &v1alpha1.FailureStatus{Reason: string(reason), Run: run}}
	}
	running, accepted := RunRecord{Run: run}, RunRecord{Run: run, Accepted: true}
	lost := RunRecord{Run: run, Accepted: true, Failure: &v1alpha1.FailureStatus{Reason: string(v1alpha1.ReasonGuestAPIUnreachable)}}
	rows := map[string]struct {
		before, after RunRecord
		want          RunOutcome
	}{
		"a run starts":                         {RunRecord{}, running, ""},
		"a run gets its UID":                   {RunRecord{Run: &v1alpha1.RunStatus{Name: "r-0"}}, running, ""},
		"a run goes on":                        {running, running, ""},
		"its kubeconfig is accepted":           {running, accepted, OutcomeSucceeded},
		"an accepted one is counted once":      {accepted, accepted, ""},
		"it fails":                             {running, failed(v1alpha1.ReasonRunFailed, "r-0"), OutcomeFailed},
		"it runs out of time":                  {running, failed(v1alpha1.ReasonProvisioningTimeout, "r-0"), OutcomeTimedOut},
		"it is lost for good":                  {running, failed(v1alpha1.ReasonRunLost, "r-0"), OutcomeLost},
		"what it hands over is refused":        {running, failed(v1alpha1.ReasonHandoffInvalid, "r-0"), OutcomeRejected},
		"a failed one is counted once":         {failed(v1alpha1.ReasonRunFailed, "r-0"), failed(v1alpha1.ReasonRunFailed, "r-0"), ""},
		"its instance fails for other reasons": {running, failed(v1alpha1.ReasonBundleChanged, ""), ""},
		"the guest fails after it":             {accepted, lost, ""},
		"the next attempt begins":              {running, RunRecord{Run: &v1alpha1.RunStatus{Name: "r-1", Attempt: 1}}, OutcomeLost},
	}
	for name, row := range rows {
		if got := RunEnded(row.before, row.after); got != row.want {
			t.Errorf("%s: got %q, want %q", name, got, row.want)
		}
	}
}

func TestWarm(t *testing.T) {
	at := func(s int64) *metav1.Time { return &metav1.Time{Time: time.Unix(s, 0)} }
	lease := &v1alpha1.ClusterLease{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: *at(100)}}
	for name, row := range map[string]struct {
		ready *metav1.Time
		want  bool
	}{
		"never Ready": {nil, false}, "Ready before": {at(99), true}, "Ready in the same second": {at(100), true}, "Ready later": {at(101), false},
	} {
		if got := Warm(lease, &v1alpha1.ClusterInstance{Status: v1alpha1.ClusterInstanceStatus{ReadyTime: row.ready}}); got != row.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestBreaker(t *testing.T) {
	now := time.Unix(1000, 0)
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(d)} }
	for name, row := range map[string]struct {
		reason v1alpha1.Reason
		next   *metav1.Time
		want   BreakerState
	}{
		"healthy":         {v1alpha1.ReasonProvisioningHealthy, nil, BreakerClosed},
		"in the pause":    {v1alpha1.ReasonBreakerOpen, at(time.Second), BreakerOpen},
		"after the pause": {v1alpha1.ReasonBreakerOpen, at(0), BreakerHalfOpen},
	} {
		pool := &v1alpha1.ClusterPool{}
		pool.Status.NextAttemptTime = row.next
		pool.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionProvisioningHealthy, Reason: string(row.reason)}}
		if got := Breaker(pool, now); got != row.want {
			t.Errorf("%s: got %s, want %s", name, got, row.want)
		}
	}
}
