package faults

import "strings"

const prefix = "rig.guestcluster.opdev.io/"

// What a DataVolume may be told.
const (
	// Stall stops before any byte moves.
	Stall = prefix + "stall"
	// Fail ends every attempt with the message that is its value.
	Fail = prefix + "fail"
	// FailFinally makes the phase Failed with the message that is its value.
	FailFinally = prefix + "fail-finally"
	// NoSpace ends every attempt for lack of space.
	NoSpace = prefix + "no-space"
	// Population is "populator" or "legacy": how volumes that wait for a
	// consumer are filled, and so which phase tells that they wait.
	Population = prefix + "population"
)

// What a VirtualMachine may be told, besides Stall.
const (
	// NoAddress keeps the interfaces of a running instance empty.
	NoAddress = prefix + "no-address"
	// Unschedulable makes the launcher pod ask for a node that is not there.
	Unschedulable = prefix + "unschedulable"
	// Guest is a list that the launcher hands to the guest.
	Guest = prefix + "guest-faults"
)

// Faults are the annotations that are faults.
type Faults map[string]string

// Of joins the annotations of a namespace and of an object in it, which wins.
func Of(namespace, object map[string]string) Faults {
	all := Faults{}
	for _, annotations := range []map[string]string{namespace, object} {
		for name, value := range annotations {
			if strings.HasPrefix(name, prefix) {
				all[name] = value
			}
		}
	}
	return all
}

// Has tells whether a fault is set; "false" and an empty value clear it.
func (f Faults) Has(name string) bool { return f[name] != "" && f[name] != "false" }
