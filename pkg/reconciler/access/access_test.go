package access

import (
	"context"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

type fakeReviews struct {
	authorizationclient.SelfSubjectAccessReviewInterface
	allowed bool
	asked   int
}

func (f *fakeReviews) Create(_ context.Context, r *authorizationv1.SelfSubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SelfSubjectAccessReview, error) {
	f.asked++
	r.Status.Allowed = f.allowed
	return r, nil
}

func TestAnswersAreRememberedForAShortTime(t *testing.T) {
	reviews, clock := &fakeReviews{}, clocktesting.NewFakeClock(time.Unix(1e9, 0))
	c := New(reviews, clock)
	expect := func(name string, ok bool, asked int) {
		t.Helper()
		command, got, err := c.Instances(t.Context(), "ci")
		if err != nil || got != ok || reviews.asked != asked {
			t.Errorf("%s: ok %t, asked %d, error %v", name, got, reviews.asked, err)
		}
		const want = "kubectl create rolebinding guestcluster-namespace -n ci --clusterrole=guestcluster-namespace --serviceaccount=guestcluster-system:guestcluster-controller"
		if command != want {
			t.Errorf("%s: command %q", name, command)
		}
	}
	expect("first", false, 1)
	expect("a no is remembered", false, 1)
	reviews.allowed = true
	clock.Step(trustNo)
	expect("a no is soon asked again", true, 3)
	clock.Step(trustYes - time.Second)
	expect("a yes is remembered", true, 3)
	clock.Step(time.Second)
	expect("a yes ends too", true, 5)
	command, ok, _ := c.Leases(t.Context(), "ci")
	if !ok || reviews.asked != 7 {
		t.Errorf("the other role shares an answer: asked %d", reviews.asked)
	}
	const want = "kubectl create rolebinding guestcluster-lease-namespace -n ci --clusterrole=guestcluster-lease-namespace --serviceaccount=guestcluster-system:guestcluster-controller"
	if command != want {
		t.Errorf("command %q", command)
	}
}
