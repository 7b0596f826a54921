package instance

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/reconciler/probe"
)

// oneResult is a prober that knows one result, of one start of one machine.
type oneResult struct {
	noProbes
	of     types.UID
	result probe.Result
}

func (p oneResult) Result(_ types.NamespacedName, uid types.UID) (probe.Result, bool) {
	if uid != p.of {
		return probe.Result{}, false
	}
	return p.result, true
}

func TestServiceIsRepairedSoonerWhenTheGuestIsSilent(t *testing.T) {
	for name, row := range map[string]struct {
		err   error
		after time.Duration
		want  int
	}{
		"an answering guest's after three minutes": {nil, repairEvery - time.Second, 0},
		"a silent one's after half a minute":       {errors.New("refused"), repairSoon, 1},
	} {
		t.Run(name, func(t *testing.T) {
			i := provisioning()
			w := newWorld(t, []runtime.Object{i}, nil)
			clock := clocktesting.NewFakeClock(worldNow)
			w.clock, w.prober = clock, oneResult{of: i.UID, result: probe.Result{Err: row.err}}
			if err := w.repairSometimes(w.ctx, i); err != nil {
				t.Fatal(err)
			}
			w.kube.ClearActions()
			clock.Step(row.after)
			if err := w.repairSometimes(w.ctx, i); err != nil {
				t.Fatal(err)
			}
			if got := len(w.kube.Actions()); got != row.want {
				t.Errorf("looked %d times, want %d", got, row.want)
			}
		})
	}
}

// An answer of the last start of the machine does not make the next one Ready.
func TestAnswersOfAnotherStartDoNotCount(t *testing.T) {
	i := provisioning()
	i.Spec.Type = v1alpha1.TypeCRC
	i.MarkProvisioned("4.19.3")
	i.MarkMachine("old")
	machine, running, volume, claim := guest(i)
	w := newWorld(t, []runtime.Object{i}, []runtime.Object{machine, running, volume, claim})
	if err := w.kube.Tracker().Add(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: claim.GetName()}}); err != nil {
		t.Fatal(err)
	}
	w.prober = oneResult{of: probed(i), result: probe.Result{At: worldNow, Full: true}}
	next, err := w.tend(w.ctx, i)
	if err != nil {
		t.Fatal(err)
	}
	w.probe(i, next)
	if i.VMIUID() != running.GetUID() || i.Status.ReadyReason() != v1alpha1.ReasonGuestRestarted {
		t.Errorf("machine %s, Ready is %s", i.VMIUID(), i.Status.ReadyReason())
	}
	w.prober = oneResult{of: probed(i), result: probe.Result{At: worldNow, Full: true}}
	if next, err = w.tend(w.ctx, i); err != nil {
		t.Fatal(err)
	}
	w.probe(i, next)
	if !i.IsReady() {
		t.Errorf("Ready is %s", i.Status.ReadyReason())
	}
}
