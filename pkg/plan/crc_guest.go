package plan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// GuestFacts is what is known of the virtual machine of a provisioned instance.
type GuestFacts struct {
	// Name of the VirtualMachine, its running machine and its disk.
	Name string
	// Gone names what a live GET did not find: machine or disk.
	Gone string
	// Halted: its run strategy is not Always.
	Halted bool
	// Running is the UID of the machine that runs; empty when none does, or it is ending.
	Running types.UID
	// Known is the UID that was recorded.
	Known types.UID
	// Reason of condition GuestAPIReachable.
	Reason v1alpha1.Reason
}

// GuestStep is what to do about the virtual machine.
type GuestStep int

const (
	// GuestRuns: there is nothing to do.
	GuestRuns GuestStep = iota
	// GuestAwait: it came up before and its API is still awaited.
	GuestAwait
	// GuestStart: start it again.
	GuestStart
	// GuestDown: it is being started by others.
	GuestDown
	// GuestAdopt: record the machine that runs anew.
	GuestAdopt
	// GuestGiveUp: the instance is lost.
	GuestGiveUp
)

// GuestPlan says what to do, and what is said of the API meanwhile.
type GuestPlan struct {
	Step    GuestStep
	Reason  v1alpha1.Reason
	Message string
}

// Down says that no machine runs: whatever a probe says is of the past.
func (p GuestPlan) Down() bool { return p.Step == GuestStart || p.Step == GuestDown }

// Guest decides.
//
//	machine or disk gone                    give up
//	halted                                  start it
//	no machine runs                         down
//	another machine than recorded           adopt it
//	the recorded one, stopped or restarted  await its API
//	the recorded one                        runs
func Guest(f GuestFacts) GuestPlan {
	switch {
	case f.Gone != "":
		return GuestPlan{GuestGiveUp, v1alpha1.ReasonGuestLost, f.Gone + " was deleted: the cluster is lost"}
	case f.Halted:
		return GuestPlan{GuestStart, v1alpha1.ReasonGuestStopped, fmt.Sprintf("VirtualMachine %s was stopped: it is started again", f.Name)}
	case f.Running == "":
		return GuestPlan{GuestDown, v1alpha1.ReasonGuestStopped, fmt.Sprintf("VirtualMachine %s does not run: KubeVirt is starting it again", f.Name)}
	case f.Running != f.Known:
		return GuestPlan{GuestAdopt, v1alpha1.ReasonGuestRestarted, fmt.Sprintf("VirtualMachine %s runs anew from the same disk: waiting for its API", f.Name)}
	case f.Reason == v1alpha1.ReasonGuestStopped || f.Reason == v1alpha1.ReasonGuestRestarted:
		return GuestPlan{GuestAwait, v1alpha1.ReasonGuestRestarted, fmt.Sprintf("VirtualMachine %s runs: waiting for its API", f.Name)}
	}
	return GuestPlan{Step: GuestRuns}
}
