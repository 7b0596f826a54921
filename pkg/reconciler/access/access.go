package access

import (
	"context"
	"fmt"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/utils/clock"

	"opdev.io/guestcluster/pkg/apis/guestcluster"
)

// ClusterRoles that an admin binds in a namespace.
const (
	// InstancesRole lets the controller make instances in a namespace.
	InstancesRole = "guestcluster-namespace"
	// LeasesRole lets the controller write access Secrets in a namespace.
	LeasesRole = "guestcluster-lease-namespace"
)

const (
	trustYes = 30 * time.Second
	// trustNo is short: an admin who just ran the command waits for it.
	trustNo = 3 * time.Second
)

type key struct{ namespace, role string }

type answer struct {
	ok bool
	at time.Time
}

// Checker answers with SelfSubjectAccessReviews, remembered for a short time.
type Checker struct {
	client authorizationclient.SelfSubjectAccessReviewInterface
	clock  clock.PassiveClock

	mu      sync.Mutex
	answers map[key]answer
}

// New makes a Checker.
func New(client authorizationclient.SelfSubjectAccessReviewInterface, clock clock.PassiveClock) *Checker {
	return &Checker{client: client, clock: clock, answers: map[key]answer{}}
}

// Instances says whether instances can be made in a namespace; if not, command
// is what an admin must run.
func (c *Checker) Instances(ctx context.Context, namespace string) (command string, ok bool, err error) {
	return c.check(ctx, key{namespace, InstancesRole},
		right("", "secrets", "create"), right("rbac.authorization.k8s.io", "rolebindings", "create"))
}

// Leases says whether access Secrets can be made in a namespace; if not,
// command is what an admin must run.
func (c *Checker) Leases(ctx context.Context, namespace string) (command string, ok bool, err error) {
	return c.check(ctx, key{namespace, LeasesRole},
		right("", "secrets", "create"), right("", "secrets", "delete"))
}

// Command is what gives the controller a role in a namespace. The RoleBinding
// has the role's name: a namespace may need both, and a roleRef cannot change.
func Command(namespace, role string) string {
	return fmt.Sprintf("kubectl create rolebinding %s -n %s --clusterrole=%s --serviceaccount=%s:guestcluster-controller",
		role, namespace, role, guestcluster.SystemNamespace)
}

func right(group, resource, verb string) authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{Group: group, Resource: resource, Verb: verb}
}

func (c *Checker) check(ctx context.Context, k key, rights ...authorizationv1.ResourceAttributes) (string, bool, error) {
	command := Command(k.namespace, k.role)
	if ok, known := c.remembered(k); known {
		return command, ok, nil
	}
	for _, r := range rights {
		r.Namespace = k.namespace
		ok, err := c.ask(ctx, r)
		if err != nil || !ok {
			if err == nil {
				c.remember(k, false)
			}
			return command, false, err
		}
	}
	c.remember(k, true)
	return command, true, nil
}

func (c *Checker) ask(ctx context.Context, r authorizationv1.ResourceAttributes) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &r}}
	review, err := c.client.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("review access to %s in namespace %s: %w", r.Resource, r.Namespace, err)
	}
	return review.Status.Allowed, nil
}

func (c *Checker) remembered(k key) (ok, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, known := c.answers[k]
	trust := trustNo
	if a.ok {
		trust = trustYes
	}
	return a.ok, known && c.clock.Since(a.at) < trust
}

func (c *Checker) remember(k key, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[k] = answer{ok: ok, at: c.clock.Now()}
}
