package acquire

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/lessee"
	"opdev.io/guestcluster/pkg/steps/kube"
	"opdev.io/guestcluster/pkg/steps/step"
)

// abandonTimeout leaves the pod's grace period room for a slow API.
const abandonTimeout = 5 * time.Second

// ensure returns the holder's lease: found, or made. What an earlier attempt
// left Failed before it had a cluster is replaced, once.
func (a *Acquirer) ensure(ctx context.Context) (*v1alpha1.ClusterLease, error) {
	lease, err := a.Leases.Get(ctx, a.Holder.LeaseName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return a.create(ctx)
	case err != nil:
		return nil, a.classify("read lease", err)
	}
	if problem := a.Conflict(lease); problem != nil {
		return nil, step.OfProblem(problem)
	}
	if lessee.NeverBound(lease) && lease.UID != a.followed && lease.DeletionTimestamp == nil {
		return nil, a.replace(ctx, lease)
	}
	if a.followed == "" && lease.DeletionTimestamp == nil {
		a.say("adopting lease %s/%s of this run", lease.Namespace, lease.Name)
	}
	return lease, nil
}

func (a *Acquirer) create(ctx context.Context) (*v1alpha1.ClusterLease, error) {
	if a.followed != "" {
		if a.renewed {
			return nil, step.OfProblem(a.Holder.Deleted())
		}
		// An older pod of this run may have removed it on its way out.
		a.renewed, a.followed = true, ""
	}
	lease, err := a.Leases.Create(ctx, a.Lease(), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil, step.ErrAgain
	}
	if err != nil {
		return nil, a.classify("create lease", err)
	}
	a.say("made lease %s/%s on pool %s", lease.Namespace, lease.Name, lease.PoolKey())
	return lease, nil
}

// replace deletes a lease that failed in an earlier attempt; the next round
// makes it anew.
func (a *Acquirer) replace(ctx context.Context, lease *v1alpha1.ClusterLease) error {
	a.say("replacing lease %s/%s, which failed before: %s", lease.Namespace, lease.Name, lease.Status.BoundMessage())
	err := a.delete(ctx, lease, nil)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return a.classify("delete lease", err)
	}
	return step.ErrAgain
}

// abandon removes a lease that still waits when the step has to stop. It is
// best effort: the controller ends it with the holder or at its timeout.
func (a *Acquirer) abandon() {
	ctx, cancel := context.WithTimeout(context.Background(), abandonTimeout)
	defer cancel()
	err := step.Retry(ctx, a.Pause, a.Progress, func(ctx context.Context) error {
		lease, err := a.Leases.Get(ctx, a.Holder.LeaseName(), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		case !a.Holder.Holds(lease) || !lessee.Pending(lease):
			return nil
		}
		a.say("removing lease %s/%s, which still waits", lease.Namespace, lease.Name)
		return a.delete(ctx, lease, &lease.ResourceVersion)
	})
	if err != nil {
		a.say("lease not removed: %v; the controller ends it", err)
	}
}

// delete deletes exactly this lease; with a resource version, only if it is
// still as it was seen.
func (a *Acquirer) delete(ctx context.Context, lease *v1alpha1.ClusterLease, version *string) error {
	return a.Leases.Delete(ctx, lease.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: ptr.To(lease.UID), ResourceVersion: version},
	})
}

func (a *Acquirer) classify(doing string, err error) error {
	return kube.Classify(doing, err, fmt.Sprintf(
		"an admin can run: kubectl create rolebinding guestcluster-lessee -n %s --clusterrole=guestcluster-lessee --serviceaccount=%s:<ServiceAccount of this run>",
		a.Holder.Namespace, a.Holder.Namespace))
}
