package broker

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Meter is a transport that counts the writes of a process and notes deletions
// without preconditions (invariant 7).
type Meter struct {
	mu       sync.Mutex
	writes   int
	last     time.Time
	newest   []string
	breaches []string
}

// Wrap is for SetOptions.
func (m *Meter) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		m.note(r)
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Quiet is how long nothing was written, Events included, and what was written last.
func (m *Meter) Quiet() (time.Duration, []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Since(m.last), append([]string(nil), m.newest...)
}

// Writes counts the mutating requests so far, Events and election Leases excluded.
func (m *Meter) Writes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.writes
}

// Breaches are the deletions without preconditions.
func (m *Meter) Breaches() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.breaches...)
}

const newestWrites = 5

func (m *Meter) note(r *http.Request) {
	if r.Method == http.MethodGet || strings.HasSuffix(r.URL.Path, "accessreviews") || strings.Contains(r.URL.Path, "/coordination.k8s.io/") {
		return
	}
	unguarded := r.Method == http.MethodDelete && !guarded(r)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = time.Now()
	m.newest = append(m.newest, r.Method+" "+r.URL.Path)
	m.newest = m.newest[max(0, len(m.newest)-newestWrites):]
	if Mutates(r) {
		m.writes++
	}
	if unguarded {
		m.breaches = append(m.breaches, "7: DELETE "+r.URL.Path+" has no UID precondition")
	}
}

func guarded(r *http.Request) bool {
	if r.Body == nil {
		return false
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var options metav1.DeleteOptions
	if err != nil || json.Unmarshal(body, &options) != nil {
		return false
	}
	return options.Preconditions != nil && options.Preconditions.UID != nil
}
