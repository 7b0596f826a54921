package faults_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/test/internal/broker"
)

// TestRandomTraces plays random steps of users, runs and faults against one
// pool and then wants rest, order and an audit without a breach. A failing
// trace is shrunk; rapid prints its seed and how to repeat it.
func TestRandomTraces(t *testing.T) {
	t.Parallel()
	began := time.Now()
	soak, err := time.ParseDuration(os.Getenv("SOAK"))
	for round := 0; ; round++ {
		rapid.Check(t, trace(t))
		if err != nil || time.Since(began) > soak {
			return
		}
	}
}

func trace(t *testing.T) func(*rapid.T) {
	return func(r *rapid.T) {
		counted.traces.Add(1)
		var cleanups []func()
		w := newWorld(cleaner{T: t, fails: r, cleanups: &cleanups})
		defer func() {
			for _, f := range slices.Backward(cleanups) {
				f()
			}
		}()
		m := &model{w: w, size: rapid.Int32Range(1, 3).Draw(r, "maxSize"), held: map[string]bool{}}
		w.script(m.act)
		m.sets = append(m.sets, w.start())
		w.pool(m.size, rapid.Int32Range(0, m.size).Draw(r, "warmSpares"))
		r.Repeat(map[string]func(*rapid.T){
			"lease": m.lease, "release": m.release, "delete": m.deleteLease, "extend": m.extend,
			"edit pool": m.editPool, "runs": m.changeRuns, "vanish": m.vanish, "restart": m.restart,
			"second controller": m.second, "call fails": m.callFails, "wait": m.wait,
		})
		m.rest()
	}
}

// cleaner lets a world live for one trace inside a test.
type cleaner struct {
	*testing.T
	fails    *rapid.T
	cleanups *[]func()
}

func (c cleaner) Cleanup(f func())             { *c.cleanups = append(*c.cleanups, f) }
func (c cleaner) Fatal(args ...any)            { c.fails.Fatal(args...) }
func (c cleaner) Fatalf(text string, a ...any) { c.fails.Fatalf(text, a...) }
func (c cleaner) Error(args ...any)            { c.fails.Error(args...) }
func (c cleaner) Errorf(text string, a ...any) { c.fails.Errorf(text, a...) }
func (c cleaner) Failed() bool                 { return c.fails.Failed() }

// model is what the steps may refer to.
type model struct {
	w     *world
	size  int32
	next  int
	held  map[string]bool
	sets  []*broker.Set
	shape broker.Act
}

const mostLeases = 5

func (m *model) act(string, string) broker.Act { return m.shape }

func (m *model) lease(r *rapid.T) {
	if len(m.held) >= mostLeases {
		r.Skip("enough leases")
	}
	name := fmt.Sprintf("job-%d", m.next)
	m.next++
	m.held[name] = true
	m.w.lease(name, func(s *v1alpha1.ClusterLeaseSpec) { s.Priority = rapid.Int32Range(0, 1).Draw(r, "priority") })
}

func (m *model) some(r *rapid.T) string {
	var names []string
	for name := range m.held {
		names = append(names, name)
	}
	if len(names) == 0 {
		r.Skip("no lease")
	}
	slices.Sort(names)
	return rapid.SampledFrom(names).Draw(r, "which")
}

func (m *model) release(r *rapid.T) {
	name := m.some(r)
	delete(m.held, name)
	m.w.release(name)
}

func (m *model) deleteLease(r *rapid.T) {
	name := m.some(r)
	delete(m.held, name)
	m.w.deleteLease(name)
}

func (m *model) extend(r *rapid.T) {
	name := m.some(r)
	hours := rapid.IntRange(1, 3).Draw(r, "hours")
	// A shorter one is refused: that is the API server's to say.
	_, _ = m.w.leases.Patch(context.Background(), name, types.MergePatchType, []byte(fmt.Sprintf(`{"spec":{"ttl":"%dh"}}`, hours)), metav1.PatchOptions{})
}

func (m *model) editPool(r *rapid.T) {
	m.w.patchPool(fmt.Sprintf(`{"spec":{"warmSpares":%d}}`, rapid.Int32Range(0, m.size).Draw(r, "warmSpares")))
}

func (m *model) changeRuns(r *rapid.T) {
	shape := rapid.SampledFrom([]broker.Act{
		{}, {}, {Delay: 200 * time.Millisecond}, {Delete: true}, {Cancel: true}, {Fail: true, ExitCode: 11, Message: "no room"},
	}).Draw(r, "runs")
	m.w.script(func(string, string) broker.Act { return shape })
}

// vanish: a person deletes an instance, leased or not.
func (m *model) vanish(r *rapid.T) {
	list, err := m.w.instances.List(context.Background(), metav1.ListOptions{})
	m.w.must(err)
	if len(list.Items) == 0 {
		r.Skip("no instance")
	}
	i := list.Items[rapid.IntRange(0, len(list.Items)-1).Draw(r, "instance")]
	m.w.recorder.ByPerson(i.UID)
	_ = m.w.instances.Delete(context.Background(), i.Name, metav1.DeleteOptions{})
}

func (m *model) restart(*rapid.T) {
	for _, set := range m.sets {
		set.Stop()
	}
	m.sets = []*broker.Set{m.w.start()}
}

func (m *model) second(r *rapid.T) {
	if len(m.sets) > 1 {
		r.Skip("there are two")
	}
	m.w.recorder.TwoAtOnce()
	m.sets = append(m.sets, m.w.start())
}

// callFails restarts into controllers one of whose next calls fails.
func (m *model) callFails(r *rapid.T) {
	how := rapid.SampledFrom(broker.Failures).Draw(r, "how")
	failure := broker.NewFailure(rapid.IntRange(1, 12).Draw(r, "call"), how, true)
	m.restartWith(failure.Wrap)
}

func (m *model) restartWith(wrap wrapper) {
	for _, set := range m.sets {
		set.Stop()
	}
	m.sets = []*broker.Set{m.w.start(wrap)}
}

func (m *model) wait(r *rapid.T) {
	time.Sleep(time.Duration(rapid.IntRange(0, 300).Draw(r, "ms")) * time.Millisecond)
}

// rest: faults stop, and within patience all is as the pool and leases say.
func (m *model) rest() {
	w := m.w
	w.script(nil)
	m.restart(nil)
	w.eventually("rest", func(ctx context.Context) string {
		lacks := w.settled(ctx)
		if lacks != "" {
			// Time heals what waits for the breaker or for an hour to pass; a slow
			// machine looks only a few times.
			w.skip(10 * time.Minute)
		}
		return lacks
	})
	w.idle(briefly)
	if _, err := w.recorder.Until(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	if text := linearizable(w.recorder.History(), int(m.size)); text != "" {
		w.t.Errorf("invariant broken: %s", text)
	}
	w.end(briefly)
}

// step is an acquire or a release of one token; tokens are instance UIDs.
type step struct {
	release bool
	token   types.UID
}

// tokens is the state of a pool of one-shot tokens.
type tokens struct{ used, held []types.UID }

// oneShot hands every token out once, and at most size at a time.
func oneShot(size int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return tokens{} },
		Step: func(state, input, _ any) (bool, any) {
			s, in := state.(tokens), input.(step)
			n := slices.Index(s.held, in.token)
			if in.release {
				if n < 0 {
					return false, s
				}
				return true, tokens{s.used, slices.Delete(slices.Clone(s.held), n, n+1)}
			}
			if slices.Contains(s.used, in.token) || len(s.held) >= size {
				return false, s
			}
			return true, tokens{append(slices.Clone(s.used), in.token), append(slices.Clone(s.held), in.token)}
		},
		Equal: func(a, b any) bool {
			x, y := a.(tokens), b.(tokens)
			return slices.Equal(x.used, y.used) && slices.Equal(x.held, y.held)
		},
	}
}

// linearizable checks the acquires and releases that users saw, with revisions
// as their clock: an acquire lasts from creation to Bound, a release from the
// wish to the end.
func linearizable(history []broker.Revision, size int) string {
	type life struct {
		made, bound, wish, end int64
		token                  types.UID
	}
	lives := map[types.UID]*life{}
	last := int64(0)
	for _, r := range history {
		last = int64(r.Number)
		if r.Resource != "clusterleases" {
			continue
		}
		l, err := broker.As[v1alpha1.ClusterLease](r)
		if err != nil {
			return err.Error()
		}
		one := lives[l.UID]
		if one == nil {
			one = &life{made: last}
			lives[l.UID] = one
		}
		if l.Status.Phase == v1alpha1.LeaseBound && one.bound == 0 {
			one.bound, one.token = last, l.Status.InstanceRef.UID
		}
		if one.wish == 0 && (!l.Wanted() || r.Gone) {
			one.wish = last
		}
		if one.end == 0 && (l.Ended() || r.Gone) {
			one.end = last
		}
	}
	var operations []porcupine.Operation
	for _, one := range lives {
		if one.bound == 0 {
			continue
		}
		client := len(operations)
		operations = append(operations, porcupine.Operation{ClientId: client, Input: step{token: one.token}, Call: one.made, Return: one.bound})
		if one.wish != 0 {
			end := one.end
			if end == 0 {
				end = last + 1
			}
			operations = append(operations, porcupine.Operation{ClientId: client, Input: step{true, one.token}, Call: one.wish, Return: end + 1})
		}
	}
	if !porcupine.CheckOperations(oneShot(size), operations) {
		return fmt.Sprintf("the history of %d acquires and releases is not that of %d one-shot tokens", len(operations), size)
	}
	return ""
}
