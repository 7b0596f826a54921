package faults_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/test/internal/broker"
)

const (
	// quietLong is the window of L5.
	quietLong = 10 * time.Second
	lives     = 6
)

// serveMany makes leases, and releases each when it is Bound, until all were served.
func (w *world) serveMany(n int) {
	w.t.Helper()
	var made sync.WaitGroup
	for k := range n {
		made.Go(func() { w.lease(fmt.Sprintf("job-%d", k), nil) })
	}
	made.Wait()
	w.eventually("all leases to be served", func(ctx context.Context) string {
		list, err := w.leases.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		open := 0
		for _, l := range list.Items {
			if l.Status.Phase == v1alpha1.LeaseBound && !l.Spec.Release {
				w.release(l.Name)
			}
			if !l.Ended() {
				open++
			}
		}
		if open > 0 {
			return fmt.Sprintf("%d leases are open", open)
		}
		return ""
	})
	if _, err := w.recorder.Until(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	if served := w.recorder.Audit().Served(); served != n {
		w.t.Errorf("%d leases were served, want %d", served, n)
	}
	if text := linearizable(w.recorder.History(), 2); text != "" {
		w.t.Errorf("invariant broken: %s", text)
	}
}

// TestTwoControllersAtOnce lets two processes that both think they lead serve
// the same leases, one of them with late news of instances.
func TestTwoControllersAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	late := delayed("clusterinstances", 300*time.Millisecond)
	w.recorder.TwoAtOnce()
	w.start()
	w.start(late)
	w.pool(2, 2)
	w.serveMany(lives)
	w.eventually("rest", w.settled)
	w.end(quietLong)
}

// TestTwoBindersOneInstance lets two processes announce and claim the same
// instance for two leases: neither sees the other's lease, nor what becomes of
// instances. Both claims are on their way before the first one arrives.
func TestTwoBindersOneInstance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.recorder.TwoAtOnce()
	first := w.start()
	w.pool(2, 2)
	w.available(2)
	first.Stop()
	arrive, told := make(chan struct{}), make(chan struct{})
	letArrive, tell := sync.OnceFunc(func() { close(arrive) }), sync.OnceFunc(func() { close(told) })
	defer tell()
	defer letArrive()
	blind := func(lease string) wrapper {
		return broker.Withhold(func(resource, name string) bool {
			return resource == "clusterinstances" || (resource == "clusterleases" && name == lease)
		}, told)
	}
	underway := make(chan struct{}, 2)
	w.start(blind("b"), claimsWait(underway, arrive))
	w.start(blind("a"), claimsWait(underway, arrive))
	w.lease("a", nil)
	w.lease("b", nil)
	for range 2 {
		select {
		case <-underway:
		case <-time.After(broker.Patience):
			t.Fatal("two processes were to claim, not both have")
		}
	}
	claiming := w.leaseVersions(t.Context())
	letArrive()
	// Who lost must find its own way back before anybody else can help.
	w.eventually("the end of both claims", func(ctx context.Context) string {
		now := w.leaseVersions(ctx)
		for name, version := range claiming {
			if now[name] == version {
				return "lease " + name + " still claims"
			}
		}
		return ""
	})
	tell()
	w.bound("a")
	w.bound("b")
	w.eventually("rest", w.settled)
	w.end(briefly)
}

func (w *world) leaseVersions(ctx context.Context) map[string]string {
	w.t.Helper()
	list, err := w.leases.List(ctx, metav1.ListOptions{})
	w.must(err)
	versions := map[string]string{}
	for _, l := range list.Items {
		versions[l.Name] = l.ResourceVersion
	}
	return versions
}

// claimsWait tells of the first claim of a process and lets none arrive before time.
func claimsWait(underway chan<- struct{}, arrive <-chan struct{}) wrapper {
	tell := sync.OnceFunc(func() { underway <- struct{}{} })
	return func(next http.RoundTripper) http.RoundTripper {
		return transport(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/clusterinstances/") {
				tell()
				<-arrive
			}
			return next.RoundTrip(r)
		})
	}
}

// delayed makes every stream of a kind late.
func delayed(resource string, by time.Duration) wrapper {
	return func(next http.RoundTripper) http.RoundTripper {
		return transport(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if err == nil && strings.HasSuffix(r.URL.Path, "/"+resource) && r.URL.Query().Get("watch") == "true" {
				response.Body = broker.Late(response.Body, by)
			}
			return response, err
		})
	}
}

type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func status(r *http.Request, code int, reason metav1.StatusReason) *http.Response {
	text := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":"injected","code":%d}`, reason, code)
	return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(text)), Request: r, Header: http.Header{"Content-Type": {"application/json"}}}
}

// TestTenthOfAllRequestsFails: watches, reads and writes, before or after the
// server did them.
func TestTenthOfAllRequestsFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var failing atomic.Bool
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(1, 2))
	w.start(func(next http.RoundTripper) http.RoundTripper {
		return transport(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			dice := random.IntN(20)
			mu.Unlock()
			if !failing.Load() || dice > 1 {
				return next.RoundTrip(r)
			}
			if dice == 1 && r.Method != http.MethodGet {
				if response, err := next.RoundTrip(r); err == nil {
					_ = response.Body.Close()
				}
			}
			return status(r, http.StatusInternalServerError, metav1.StatusReasonInternalError), nil
		})
	})
	failing.Store(true)
	w.pool(2, 1)
	w.serveMany(lives)
	failing.Store(false)
	w.eventually("rest", w.settled)
	w.end(quietLong)
}

// TestRightsTakenAway: every request of the controllers is forbidden for a
// while, in the midst of provisioning, binding and releasing.
func TestRightsTakenAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var forbidden atomic.Bool
	w.start(func(next http.RoundTripper) http.RoundTripper {
		return transport(func(r *http.Request) (*http.Response, error) {
			if forbidden.Load() && !strings.Contains(r.URL.Path, "accessreviews") {
				return status(r, http.StatusForbidden, metav1.StatusReasonForbidden), nil
			}
			return next.RoundTrip(r)
		})
	})
	w.pool(3, 2)
	w.lease("first", nil)
	w.bound("first")
	forbidden.Store(true)
	w.release("first")
	w.lease("second", nil)
	w.lease("third", nil)
	time.Sleep(3 * time.Second) // how long the fault lasts
	forbidden.Store(false)
	w.bound("second")
	w.bound("third")
	w.eventually("rest", w.settled)
	w.end(quietLong)
}

// TestClockJumps: a clock that jumps back ends no lease; one that jumps forward
// ends those whose ttl is over, and nothing else. When it is right again, all goes on.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{-time.Hour, time.Hour, -30 * 24 * time.Hour, 30 * 24 * time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.start()
			w.pool(2, 0)
			w.lease(job, func(s *v1alpha1.ClusterLeaseSpec) {
				s.TTL = &v1alpha1.Duration{Duration: metav1.Duration{Duration: 30 * time.Minute}}
			})
			w.lease("endless", nil)
			w.bound(job)
			w.bound("endless")
			w.skip(by)
			if by > 0 {
				w.eventually("the lease to expire", func(ctx context.Context) string { return w.lacksEnd(ctx, v1alpha1.ReasonExpired) })
			}
			w.skip(-by)
			w.lease("later", nil)
			if by < 0 {
				w.release("endless")
			}
			w.bound("later")
			if by < 0 {
				w.bound(job)
			} else {
				w.bound("endless")
			}
			w.eventually("rest", func(ctx context.Context) string {
				w.wake()
				return w.settled(ctx)
			})
			w.end(briefly)
		})
	}
}
