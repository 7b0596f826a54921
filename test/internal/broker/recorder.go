package broker

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"opdev.io/guestcluster/test/internal/server"
)

// Recorder audits every revision of a namespace, by watches of its own.
type Recorder struct {
	history   *History
	namespace string
	persons   map[types.UID]bool
	collected bool
	done      bool
}

// Record starts a Recorder; when the test ends it reports every breach.
func Record(t testing.TB, s *server.Server, namespace string) *Recorder {
	t.Helper()
	r := &Recorder{history: HistoryOf(s), namespace: namespace, persons: map[types.UID]bool{}}
	t.Cleanup(func() { r.Report(t) })
	return r
}

// ByPerson says that somebody other than the product deletes an instance.
func (r *Recorder) ByPerson(uid types.UID) { r.persons[uid] = true }

// TwoAtOnce says that two processes write at once: see Audit.Collected.
func (r *Recorder) TwoAtOnce() { r.collected = true }

// Report waits for all that has happened and reports the breaches, once.
func (r *Recorder) Report(t testing.TB) {
	t.Helper()
	if r.done {
		return
	}
	r.done = true
	defer r.history.Forget(r.namespace)
	if _, err := r.history.Until(context.Background(), r.namespace); err != nil {
		t.Errorf("record: %v", err)
	}
	for _, gap := range r.history.Gaps() {
		t.Errorf("record: %s", gap)
	}
	for _, b := range r.Audit().Breaches() {
		t.Errorf("invariant broken %s", b)
	}
}

// Audit is the judgement on what was seen so far.
func (r *Recorder) Audit() *Audit {
	audit := NewAudit()
	audit.Persons, audit.Collected = r.persons, r.collected
	for _, revision := range r.history.Revisions(r.namespace) {
		audit.See(revision)
	}
	return audit
}

// Until waits for all that has happened.
func (r *Recorder) Until(ctx context.Context) ([]Revision, error) {
	return r.history.Until(ctx, r.namespace)
}

// History is what was seen so far.
func (r *Recorder) History() []Revision { return r.history.Revisions(r.namespace) }
