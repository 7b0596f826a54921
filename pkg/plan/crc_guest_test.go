package plan

import (
	"strings"
	"testing"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

func TestGuest(t *testing.T) {
	rows := map[string]struct {
		facts  GuestFacts
		step   GuestStep
		reason v1alpha1.Reason
	}{
		"a machine that runs is left alone":               {GuestFacts{Running: "m1"}, GuestRuns, ""},
		"an unreachable one that runs is the probe's":     {GuestFacts{Running: "m1", Reason: v1alpha1.ReasonGuestAPIUnreachable}, GuestRuns, ""},
		"a deleted one is lost":                           {GuestFacts{Gone: "VirtualMachine vm", Running: "m1"}, GuestGiveUp, v1alpha1.ReasonGuestLost},
		"one without its disk is lost, halted or not":     {GuestFacts{Gone: "PersistentVolumeClaim vm", Halted: true}, GuestGiveUp, v1alpha1.ReasonGuestLost},
		"a halted one is started":                         {GuestFacts{Halted: true}, GuestStart, v1alpha1.ReasonGuestStopped},
		"a halted one is started before it went down":     {GuestFacts{Halted: true, Running: "m1"}, GuestStart, v1alpha1.ReasonGuestStopped},
		"one that ended is awaited":                       {GuestFacts{}, GuestDown, v1alpha1.ReasonGuestStopped},
		"a new one is recorded":                           {GuestFacts{Running: "m2"}, GuestAdopt, v1alpha1.ReasonGuestRestarted},
		"a new one is awaited until a probe is good":      {GuestFacts{Running: "m1", Reason: v1alpha1.ReasonGuestRestarted}, GuestAwait, v1alpha1.ReasonGuestRestarted},
		"one that never went down is awaited as new ones": {GuestFacts{Running: "m1", Reason: v1alpha1.ReasonGuestStopped}, GuestAwait, v1alpha1.ReasonGuestRestarted},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			row.facts.Known, row.facts.Name = "m1", "vm"
			got := Guest(row.facts)
			if got.Step != row.step || got.Reason != row.reason || (row.reason != "" && !strings.Contains(got.Message, " vm ")) {
				t.Errorf("got %+v", got)
			}
			if down := row.step == GuestStart || row.step == GuestDown; got.Down() != down {
				t.Errorf("down is %t", got.Down())
			}
		})
	}
}
