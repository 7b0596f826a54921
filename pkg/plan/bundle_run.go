package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

// PreparingRun is a prepare-bundle run that no CRCBundle owns: a person
// started it.
type PreparingRun struct {
	Name string
	UID  types.UID
	// Bundle is the name that version and arch in its params give.
	Bundle string
	// Done: it has ended. Succeeded: well. Deleting: it is being deleted.
	Done, Succeeded, Deleting bool
	Created                   time.Time
}

// WantsBundle says whether a CRCBundle should be there for the run: it may
// still become one, or has become one already. A run that failed makes none:
// the person sees it fail.
func (r PreparingRun) WantsBundle(volume *BundleVolume) bool {
	if r.Bundle == "" || r.Deleting {
		return false
	}
	return !r.Done || (r.Succeeded && volume.SealedBy(r.UID))
}

// PersonsRun is the run that a bundle follows instead of starting its own: one
// that has sealed the volume, one that writes it, else the oldest that lives.
func PersonsRun(bundle string, list []PreparingRun, volume *BundleVolume) *PreparingRun {
	var chosen *PreparingRun
	rank := func(r *PreparingRun) int {
		switch {
		case r.Done:
			return 2
		case volume != nil && volume.Run == r.UID:
			return 1
		}
		return 0
	}
	for i := range list {
		r := &list[i]
		if r.Bundle != bundle || !r.WantsBundle(volume) {
			continue
		}
		if chosen == nil || rank(r) > rank(chosen) || (rank(r) == rank(chosen) && r.Created.Before(chosen.Created)) {
			chosen = r
		}
	}
	return chosen
}

// KeepBundleRun says whether the run of an ended preparation stays readable,
// and for how long still: ten minutes after Ready, an hour after a failure.
func KeepBundleRun(b *v1alpha1.CRCBundle, now time.Time) (bool, time.Duration) {
	var until time.Time
	ready := meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case b.Status.Failure != nil:
		until = b.Status.Failure.Time.Add(keepFailedRun)
	case b.Status.Phase == v1alpha1.BundleReady && ready != nil:
		until = ready.LastTransitionTime.Add(keepSucceededRun)
	default:
		return true, 0
	}
	return now.Before(until), until.Sub(now)
}
