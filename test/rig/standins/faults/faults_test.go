package faults

import "testing"

func TestObjectWinsOverNamespace(t *testing.T) {
	all := Of(
		map[string]string{Stall: "true", Fail: "no route", "other.test/stall": "true"},
		map[string]string{Stall: "false"})
	if all.Has(Stall) || !all.Has(Fail) || len(all) != 2 {
		t.Errorf("got %v", all)
	}
}
