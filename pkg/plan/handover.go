package plan

import (
	"time"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
)

const (
	// BlockedLimit is how long a claimed cluster waits for a person to make way.
	BlockedLimit = 10 * time.Minute
	// ClaimPatience is how long the lease reconciler leaves a claim to the
	// binding, which is writing it, before it completes the claim itself.
	ClaimPatience = 2 * time.Second
)

// Obstacle is what keeps a claimed cluster from being handed over.
type Obstacle struct {
	Reason  v1alpha1.Reason
	Message string
	// Final obstacles cannot be removed: the lease ends.
	Final bool
}

// BlockedTooLong says whether a lease ends because of an obstacle.
func BlockedTooLong(l *v1alpha1.ClusterLease, o Obstacle, now time.Time) bool {
	return o.Final || l.Status.ClaimedTime == nil || now.Sub(l.Status.ClaimedTime.Time) >= BlockedLimit
}

// claimPause is how long to leave an announced claim to the binding; zero when
// it is time to complete it.
func claimPause(l *v1alpha1.ClusterLease, now time.Time) time.Duration {
	if l.Status.ClaimedTime == nil {
		return 0
	}
	return max(ClaimPatience-now.Sub(l.Status.ClaimedTime.Time), 0)
}
