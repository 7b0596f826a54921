package plan

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// PoolDeletion lists the unclaimed instances to delete with their pool, and
// says what the pool waits for; empty means that no instance is left. A leased
// cluster is never destroyed by its pool's deletion.
func PoolDeletion(instances []PoolInstance) (remove []Deletion, waitsFor string) {
	leased, left := 0, 0
	for _, i := range instances {
		if i.Foreign {
			continue
		}
		left++
		switch {
		case i.Deleting:
		case i.Claimed:
			leased++
		default:
			remove = append(remove, Deletion{Name: i.Name, UID: i.UID, ResourceVersion: i.ResourceVersion, Why: "its pool is being deleted"})
		}
	}
	if left == 0 {
		return nil, ""
	}
	return remove, fmt.Sprintf("%d instances are being destroyed, %d are leased: those go when their leases are released", left-leased, leased)
}

// FailureText is a failure in one line: reason, run, task, step and exit code.
func FailureText(f *v1alpha1.FailureStatus) string {
	if f == nil {
		return "unknown"
	}
	text := f.Reason
	if f.Run != "" {
		text += " in run " + f.Run
	}
	if f.Task != "" {
		text += ", task " + f.Task
	}
	if f.Step != "" {
		text += fmt.Sprintf(", step %s (exit code %d)", f.Step, f.ExitCode)
	}
	if f.Message != "" {
		text += ": " + f.Message
	}
	return text
}

func ptrTime(t time.Time) *metav1.Time {
	return &metav1.Time{Time: t}
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}
