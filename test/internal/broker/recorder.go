package broker

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/test/internal/server"
)

// Recorder looks at every revision of a pool's instances and leases, with a
// watch of its own, and notes what breaks the invariants of the design: 1, a
// claimRef never changes; 2, a lease UID is in one claimRef; 3, Bound means a
// claim and a Secret; 4, instances are slots below maxSize.
type Recorder struct {
	pool    string
	maxSize int
	cancel  context.CancelFunc

	mu       sync.Mutex
	claims   map[types.UID]v1alpha1.ClaimReference
	served   map[types.UID]types.UID
	alive    map[string]types.UID
	most     int
	breaches []string
}

// Record starts a Recorder; when the test ends it reports every breach.
func Record(t testing.TB, s *server.Server, namespace, pool string, maxSize int) *Recorder {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &Recorder{
		pool: pool, maxSize: maxSize, cancel: cancel, claims: map[types.UID]v1alpha1.ClaimReference{},
		served: map[types.UID]types.UID{}, alive: map[string]types.UID{},
	}
	instances := s.Guest.GuestclusterV1alpha1().ClusterInstances(namespace)
	first, err := instances.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range first.Items {
		r.see(&first.Items[i], false)
	}
	go Follow(ctx, instances.List, instances.Watch, func(object runtime.Object, gone bool) {
		if i, ok := object.(*v1alpha1.ClusterInstance); ok {
			r.see(i, gone)
		}
	})
	t.Cleanup(func() {
		cancel()
		for _, b := range r.Breaches() {
			t.Errorf("invariant broken: %s", b)
		}
	})
	return r
}

// Breaches are what was noted so far.
func (r *Recorder) Breaches() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.breaches...)
}

// Most is how many instances existed at one time.
func (r *Recorder) Most() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most
}

// Served is how many leases have got an instance.
func (r *Recorder) Served() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.served)
}

func (r *Recorder) see(i *v1alpha1.ClusterInstance, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if gone {
		if r.alive[i.Name] == i.UID {
			delete(r.alive, i.Name)
		}
		return
	}
	r.alive[i.Name] = i.UID
	r.most = max(r.most, len(r.alive))
	if len(r.alive) > r.maxSize {
		r.breach("4: %d instances, maxSize is %d", len(r.alive), r.maxSize)
	}
	slot, err := strconv.Atoi(strings.TrimPrefix(i.Name, r.pool+"-"))
	if err != nil || slot < 0 || slot >= r.maxSize {
		r.breach("4: %s is no slot below %d", i.Name, r.maxSize)
	}
	r.seeClaim(i)
}

func (r *Recorder) seeClaim(i *v1alpha1.ClusterInstance) {
	before, claimed := r.claims[i.UID]
	now := i.Spec.ClaimRef
	switch {
	case now == nil && claimed:
		r.breach("1: instance %s lost its claim by %s", i.Name, before.LeaseName)
	case now == nil:
	case claimed && before != *now:
		r.breach("1: instance %s was claimed by %s, then by %s", i.Name, before.LeaseName, now.LeaseName)
	default:
		r.claims[i.UID] = *now
		if other, ok := r.served[now.LeaseUID]; ok && other != i.UID {
			r.breach("2: lease %s has claimed instances %s and %s", now.LeaseName, other, i.UID)
		}
		r.served[now.LeaseUID] = i.UID
	}
}

func (r *Recorder) breach(format string, args ...any) {
	r.breaches = append(r.breaches, fmt.Sprintf(format, args...))
}
