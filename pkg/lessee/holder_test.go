package lessee

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

const uid = "11111111-2222-3333-4444-555555555555"

func TestLeaseName(t *testing.T) {
	for name, h := range map[string]Holder{
		"run-" + uid:          {PipelineRunUID: uid, RunUID: "t"},
		"run-" + uid + "-hub": {PipelineRunUID: uid, RunUID: "t", Slot: "hub"},
		"run-t":               {RunUID: "t"},
	} {
		if got := h.LeaseName(); got != name {
			t.Errorf("name %q, want %q", got, name)
		}
	}
	longest := Holder{PipelineRunUID: uid, Slot: strings.Repeat("s", 20)}
	if errs := validation.IsDNS1123Label(longest.LeaseName()); len(errs) > 0 {
		t.Errorf("%s: %v", longest.LeaseName(), errs)
	}
}

func TestValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		holder Holder
		ok     bool
	}{
		"a PipelineRun":         {Holder{Namespace: "ci", PipelineRun: "a", PipelineRunUID: uid}, true},
		"a TaskRun of its own":  {Holder{Namespace: "ci", RunUID: uid}, true},
		"a slot":                {Holder{Namespace: "ci", RunUID: uid, Slot: "a-1"}, true},
		"no namespace":          {Holder{RunUID: uid}, false},
		"no run":                {Holder{Namespace: "ci"}, false},
		"a run without its UID": {Holder{Namespace: "ci", PipelineRun: "a", RunUID: uid}, false},
		"an upper case slot":    {Holder{Namespace: "ci", RunUID: uid, Slot: "Hub"}, false},
		"a long slot":           {Holder{Namespace: "ci", RunUID: uid, Slot: strings.Repeat("s", 21)}, false},
	} {
		problem := tc.holder.Validate()
		if (problem == nil) != tc.ok || (problem != nil && problem.Class != User) {
			t.Errorf("%s: %v", name, problem)
		}
	}
}

// A lease is the holder's only by UID: the name of a run is used again.
func TestHolds(t *testing.T) {
	run, bare := Holder{PipelineRun: "a", PipelineRunUID: uid}, Holder{RunUID: uid}
	of := func(ref *v1alpha1.HolderReference) *v1alpha1.ClusterLease {
		return &v1alpha1.ClusterLease{Spec: v1alpha1.ClusterLeaseSpec{HolderRef: ref}}
	}
	older := &v1alpha1.HolderReference{Name: "a", UID: "older"}
	if !run.Holds(of(run.Ref())) || run.Holds(of(older)) || run.Holds(of(nil)) {
		t.Error("a run holds what is not its own, or does not hold its own")
	}
	if !bare.Holds(of(nil)) || bare.Holds(of(older)) {
		t.Error("a bare TaskRun holds what is not its own, or does not hold its own")
	}
}
