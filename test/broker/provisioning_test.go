package broker_test

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/test/internal/broker"
)

func always(act broker.Act) script {
	return func(string, string) broker.Act { return act }
}

// one is a pool that makes one instance and, when that fails, no other.
func one(s *v1alpha1.ClusterPoolSpec) {
	s.MaxSize, s.WarmSpares, s.Provisioning.RetryLimit = 1, 1, 1
}

func TestBadRunsFailTheInstance(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		act    broker.Act
		reason v1alpha1.Reason
		texts  []string
	}{
		{"a step fails", broker.Act{Fail: true, ExitCode: 11, Message: "no host has room"}, v1alpha1.ReasonRunFailed, []string{"the infrastructure failed: no host has room"}},
		{"the user erred", broker.Act{Fail: true, ExitCode: 10, Message: "no such image"}, v1alpha1.ReasonRunFailed, []string{"the pool's template needs a change: no such image"}},
		{"a step says a secret", broker.Act{Fail: true, ExitCode: 11, Message: "login with password=hunter2 failed"}, v1alpha1.ReasonRunFailed, []string{"password=[redacted]"}},
		{"Tekton's timeout", broker.Act{TimeOut: true}, v1alpha1.ReasonProvisioningTimeout, nil},
		{"deleted each time", broker.Act{Delete: true}, v1alpha1.ReasonRunLost, []string{"vanished", "the 2 before it"}},
		{"killed each time", broker.Act{Fail: true, ExitCode: 13, Message: "interrupted"}, v1alpha1.ReasonRunLost, []string{"lost the pod of task boot (step boot, exit code 13)", "who deletes or evicts pods"}},
		{"cancelled each time", broker.Act{Cancel: true}, v1alpha1.ReasonRunLost, []string{"was cancelled by somebody else"}},
		{"a Secret of another run", broker.Act{ForRun: "another-run"}, v1alpha1.ReasonHandoffInvalid, []string{"was written for another run"}},
		{"no Secret", broker.Act{NoSecret: true}, v1alpha1.ReasonHandoffInvalid, []string{"was not filled by the run"}},
		{"another endpoint", broker.Act{Endpoint: "https://evil.example.org"}, v1alpha1.ReasonHandoffInvalid, []string{`the kubeconfig's server is "evil.example.org:443"`}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := running(t, always(row.act))
			w.pool(one)
			i := w.instanceCondition("pool-0", v1alpha1.ConditionReady, row.reason, row.texts...)
			if i.Status.Failure == nil || i.Status.Failure.InstanceUID != i.UID || i.Status.Phase != v1alpha1.InstanceFailed {
				t.Errorf("phase %s, failure %+v", i.Status.Phase, i.Status.Failure)
			}
			w.poolCondition(v1alpha1.ConditionProvisioningHealthy, v1alpha1.ReasonBreakerOpen, "1 instances in a row failed", string(row.reason))
			w.lease("job", nil)
			w.reason("job", v1alpha1.ReasonProvisioningFailing, "provisioning fails: "+string(row.reason))
		})
	}
}

func TestLostRunIsMadeAgain(t *testing.T) {
	t.Parallel()
	kill := func(code int32) broker.Act { return broker.Act{Fail: true, ExitCode: code} }
	for name, acts := range map[string]map[string]broker.Act{
		"deleted, then cancelled": {"0": {Delete: true}, "1": {Cancel: true}},
		"its pods were killed":    {"0": kill(13), "1": kill(137)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := running(t, func(_, attempt string) broker.Act { return acts[attempt] })
			w.pool(one)
			w.available(1)
			if i := w.slot(0); i.Status.Run.Attempt != 2 {
				t.Errorf("Ready after attempt %d, want 2", i.Status.Run.Attempt)
			}
		})
	}
}

// wake makes the controllers look at an instance again after a clock's jump.
func (w *world) wake(name string) {
	w.t.Helper()
	patch := []byte(`{"metadata":{"annotations":{"test/wake":"` + shared.Name("w") + `"}}}`)
	if _, err := w.instances.Patch(w.t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func clocked(t *testing.T, acts script) (*world, *clocktesting.FakeClock) {
	t.Helper()
	w := newWorld(t, acts)
	clock := clocktesting.NewFakeClock(time.Now())
	w.clock = clock
	w.start(nil)
	t.Cleanup(w.giveBack)
	return w, clock
}

func TestHangingRunIsEndedByTheDeadline(t *testing.T) {
	t.Parallel()
	w, clock := clocked(t, always(broker.Act{Hang: true}))
	w.pool(one)
	i := w.instanceCondition("pool-0", v1alpha1.ConditionReady, v1alpha1.ReasonRunRunning, "is running")
	clock.Step(time.Hour + 3*time.Minute)
	w.wake(i.Name)
	w.instanceCondition("pool-0", v1alpha1.ConditionReady, v1alpha1.ReasonProvisioningTimeout, "did not end within 1h0m0s", "is Tekton up?")
	w.poolCondition(v1alpha1.ConditionProvisioningHealthy, v1alpha1.ReasonBreakerOpen)
}

// TestSilentGuestIsNotHandedOut takes a spare that stops answering out of use,
// and back when it answers.
func TestSilentGuestIsNotHandedOut(t *testing.T) {
	t.Parallel()
	w, clock := clocked(t, nil)
	w.pool(size(1, 1))
	w.available(1)
	i := w.slot(0)
	w.guests.Silence(i.Hostname(broker.Domain), true)
	w.probe(clock, "pool-0", v1alpha1.ReasonGuestAPIUnreachable, "does not answer", "status 503")
	w.available(0)
	w.lease("job", nil)
	w.reason("job", v1alpha1.ReasonAtCapacity)
	w.guests.Silence(i.Hostname(broker.Domain), false)
	w.probe(clock, "pool-0", v1alpha1.ReasonInstanceReady)
	_, got := w.bound("job")
	if got.UID != i.UID {
		t.Error("another instance was bound")
	}
}

// probe lets minutes pass until the instance's Ready condition has the reason.
func (w *world) probe(clock *clocktesting.FakeClock, name string, reason v1alpha1.Reason, texts ...string) {
	w.t.Helper()
	w.eventually(string(reason), func(ctx context.Context) string {
		clock.Step(61 * time.Second)
		w.wake(name)
		i, err := w.instances.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		return conditionLacks(i.Status.Conditions, v1alpha1.ConditionReady, reason, texts)
	})
}

func TestSilentPoolIsHeld(t *testing.T) {
	t.Parallel()
	w, clock := clocked(t, nil)
	w.pool(size(2, 2))
	w.available(2)
	w.guests.Silence("api-", true)
	for _, name := range []string{"pool-0", "pool-1"} {
		w.probe(clock, name, v1alpha1.ReasonGuestAPIUnreachable)
	}
	w.eventually("both to be held", func(ctx context.Context) string {
		clock.Step(2 * time.Minute)
		w.wake("pool-0")
		w.wake("pool-1")
		for _, name := range []string{"pool-0", "pool-1"} {
			i, err := w.instances.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			if lacks := conditionLacks(i.Status.Conditions, v1alpha1.ConditionGuestAPIReachable, v1alpha1.ReasonProbeHeld, []string{"more than half of the pool does not answer"}); lacks != "" {
				return lacks
			}
		}
		return ""
	})
	w.guests.Silence("api-", false)
	for _, name := range []string{"pool-0", "pool-1"} {
		w.probe(clock, name, v1alpha1.ReasonInstanceReady)
	}
}

func TestPipelineThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	t.Run("missing", func(t *testing.T) {
		t.Parallel()
		w := running(t, nil)
		w.pool(func(s *v1alpha1.ClusterPoolSpec) { s.Provisioning.Pipeline = "nowhere" })
		w.poolCondition(v1alpha1.ConditionProvisioningAllowed, v1alpha1.ReasonPipelineNotFound, `Pipeline "nowhere" is not in namespace guestcluster-system`)
		w.poolCondition(v1alpha1.ConditionReady, v1alpha1.ReasonPipelineNotFound)
		w.lease("job", nil)
		w.reason("job", v1alpha1.ReasonPoolNotProvisioning, "the pool may not make instances", `Pipeline "nowhere"`)
	})
	t.Run("wrong param", func(t *testing.T) {
		t.Parallel()
		w := running(t, nil)
		w.pool(func(s *v1alpha1.ClusterPoolSpec) {
			s.Template.Params = map[string]v1alpha1.ParamValue{"colour": "red"}
		})
		w.poolCondition(v1alpha1.ConditionProvisioningAllowed, v1alpha1.ReasonPipelineInvalid, "template.params.colour: the Pipeline declares no such param")
		w.changePool(t, func(s *v1alpha1.ClusterPoolSpec) {
			s.Template.Params = map[string]v1alpha1.ParamValue{"flavour": "hot"}
		})
		w.available(1)
	})
}

func TestNamespaceMustOptIn(t *testing.T) {
	t.Parallel()
	w := running(t, nil)
	label := func(value string) {
		patch := []byte(`{"metadata":{"labels":{"guestcluster.opdev.io/enabled":` + value + `}}}`)
		if _, err := shared.Kube.CoreV1().Namespaces().Patch(t.Context(), w.namespace, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	label(`"false"`)
	w.pool(nil)
	w.poolCondition(v1alpha1.ConditionProvisioningAllowed, v1alpha1.ReasonNamespaceDisabled, "kubectl label namespace "+w.namespace+" guestcluster.opdev.io/enabled=true")
	label(`"true"`)
	w.available(1)
}

// TestGuestThatNeverAnswers fails instances that were never Ready, though all
// of the pool's are silent at once: only what was good before is held.
func TestGuestThatNeverAnswers(t *testing.T) {
	t.Parallel()
	w, clock := clocked(t, nil)
	w.guests.Silence("api-", true)
	w.pool(func(s *v1alpha1.ClusterPoolSpec) {
		size(2, 2)(s)
		s.Provisioning.RetryLimit = 2
	})
	for _, name := range []string{"pool-0", "pool-1"} {
		w.instanceCondition(name, v1alpha1.ConditionProvisioned, v1alpha1.ReasonProvisioned)
	}
	w.eventually("the breaker to open", func(ctx context.Context) string {
		clock.Step(61 * time.Second)
		if err := w.wakeAll(ctx); err != nil {
			return err.Error()
		}
		pool, err := w.pools.Get(ctx, poolName, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		return conditionLacks(pool.Status.Conditions, v1alpha1.ConditionProvisioningHealthy, v1alpha1.ReasonBreakerOpen,
			[]string{"2 instances in a row failed", "GuestAPIUnreachable", "does not answer"})
	})
}

// wakeAll wakes what exists: a failed instance goes when its slot is wanted.
func (w *world) wakeAll(ctx context.Context) error {
	list, err := w.instances.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	patch := []byte(`{"metadata":{"annotations":{"test/wake":"` + shared.Name("w") + `"}}}`)
	for _, i := range list.Items {
		_, err := w.instances.Patch(ctx, i.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
