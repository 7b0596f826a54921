package acquire

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/lessee"
	"opdev.io/guestcluster/pkg/steps/step"
)

// follow watches a lease from the state that was read until it is bound, is
// over, or the watch ends.
func (a *Acquirer) follow(ctx context.Context, lease *v1alpha1.ClusterLease) (*v1alpha1.ClusterLease, error) {
	if done, err := a.look(ctx, lease); done || err != nil {
		return lease, err
	}
	w, err := a.Leases.Watch(ctx, metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector(metav1.ObjectNameField, lease.Name).String(),
		ResourceVersion: lease.ResourceVersion,
	})
	if err != nil {
		return nil, a.classify("watch lease", err)
	}
	defer w.Stop()
	hint := time.NewTimer(a.HintAfter)
	defer hint.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-hint.C:
			a.doubt(lease)
		case event, ok := <-w.ResultChan():
			if !ok {
				return nil, step.ErrAgain
			}
			if lease, err = seen(event); err != nil {
				return nil, err
			}
			if done, err := a.look(ctx, lease); done || err != nil {
				return lease, err
			}
		}
	}
}

// seen is the lease that an event shows.
func seen(event watch.Event) (*v1alpha1.ClusterLease, error) {
	switch event.Type {
	case watch.Deleted:
		return nil, step.ErrAgain
	case watch.Error:
		if err := apierrors.FromObject(event.Object); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			return nil, fmt.Errorf("watch lease: %w", err)
		}
		return nil, step.ErrAgain
	}
	lease, ok := event.Object.(*v1alpha1.ClusterLease)
	if !ok {
		return nil, fmt.Errorf("watch lease: unexpected %T", event.Object)
	}
	return lease, nil
}

// look says whether the wait is over. A lease on its way out is left alone:
// when it is gone, the next round makes it anew.
func (a *Acquirer) look(ctx context.Context, lease *v1alpha1.ClusterLease) (bool, error) {
	if problem := a.Conflict(lease); problem != nil {
		return false, step.OfProblem(problem)
	}
	if lease.DeletionTimestamp != nil {
		a.tell("lease is being deleted; waiting until it is gone", "")
		return false, nil
	}
	a.followed = lease.UID
	verdict := lessee.Judge(lease, a.waited)
	if verdict.Remove {
		return false, a.remove(ctx, lease, step.OfProblem(verdict.Problem))
	}
	if verdict.Bound || verdict.Problem != nil {
		return verdict.Bound, step.OfProblem(verdict.Problem)
	}
	if line := waiting(lease); line != "" {
		a.waited = string(lease.Status.BoundReason()) + ": " + lease.Status.BoundMessage()
		a.tell("waiting: "+line, lease.Status.BoundMessage())
	}
	return false, nil
}

// remove deletes a lease that waits in vain and returns why it does. If it
// changed meanwhile it is looked at again.
func (a *Acquirer) remove(ctx context.Context, lease *v1alpha1.ClusterLease, why error) error {
	err := a.delete(ctx, lease, &lease.ResourceVersion)
	switch {
	case apierrors.IsConflict(err):
		return step.ErrAgain
	case err != nil && !apierrors.IsNotFound(err):
		a.say("lease not removed: %v; the controller ends it", err)
	}
	return why
}

// waiting is the progress line of a lease that waits. Only what a person would
// act on is in it, so that an unchanged line means nothing new.
func waiting(lease *v1alpha1.ClusterLease) string {
	reason := lease.Status.BoundReason()
	if reason == "" {
		return ""
	}
	line := string(reason)
	if lease.Status.QueuePosition > 0 {
		line += fmt.Sprintf(" (position %d)", lease.Status.QueuePosition)
	}
	return line
}

// tell prints a line when it differs from the last one.
func (a *Acquirer) tell(line, detail string) {
	if line == a.said {
		return
	}
	a.said = line
	if detail != "" {
		line += ": " + detail
	}
	a.say("%s", line)
}

// doubt tells a person where to look when nobody has touched the lease.
func (a *Acquirer) doubt(lease *v1alpha1.ClusterLease) {
	if lease.Status.Phase == "" && lease.Status.ObservedGeneration == 0 {
		a.say("nothing has looked at lease %s/%s for %s: the Guestcluster controller may be down (kubectl get pods -n guestcluster-system)",
			lease.Namespace, lease.Name, a.HintAfter)
	}
}
