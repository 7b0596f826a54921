package virt

import (
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/step"
)

// Pause is the back-off between looks: short, for each look is a few small
// reads and a cluster is not faster than its slowest wait.
func Pause() wait.Backoff {
	return wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.1, Steps: 6, Cap: 3 * time.Second}
}

// Made classifies the error of making an object. A quota that is used up is
// no missing right, and a kind that nobody serves is no missing object.
func Made(doing string, err error) error {
	switch {
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return step.InfraError("%s: %w; raise the ResourceQuota of the namespace, or lower maxSize of the pool", doing, err)
	case apierrors.IsNotFound(err):
		return step.UserError("%s: %w; install OpenShift Virtualization (KubeVirt and CDI), and see that the namespace exists", doing, err)
	case apierrors.IsAlreadyExists(err):
		return step.ErrAgain // by an attempt that was killed, or still runs: it is looked at next
	}
	return kube.Classify(doing, err, Hint)
}
