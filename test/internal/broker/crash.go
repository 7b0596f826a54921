package broker

import (
	"errors"
	"net/http"
	"strings"
	"sync"
)

// errCrashed is what a dead process's requests get.
var errCrashed = errors.New("this controller has crashed")

// Crash is a transport that kills its process at one mutating call: from then
// on no request of it reaches the API server. Events and access reviews change
// nothing that matters and are not counted.
type Crash struct {
	// At is the number of the call, from 1; zero never crashes.
	At int
	// Sent: the fatal call still reaches the server, its answer is lost.
	Sent bool

	mu    sync.Mutex
	calls int
	dead  chan struct{}
	call  string
}

// NewCrash makes a Crash at a call.
func NewCrash(at int, sent bool) *Crash {
	return &Crash{At: at, Sent: sent, dead: make(chan struct{})}
}

// Dead is closed by the crash.
func (c *Crash) Dead() <-chan struct{} { return c.dead }

// Calls counts mutating calls; Call is the fatal one.
func (c *Crash) Calls() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}

// Call is the method and path of the fatal call.
func (c *Crash) Call() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.call
}

// Wrap is for SetOptions.
func (c *Crash) Wrap(next http.RoundTripper) http.RoundTripper {
	return crashTransport{crash: c, next: next}
}

type crashTransport struct {
	crash *Crash
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t crashTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	fatal, dead := t.crash.count(r)
	switch {
	case dead && isEvent(r):
		// An error would make the recorder try again for two minutes.
		return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody, Request: r, Header: http.Header{}}, nil
	case dead || (fatal && !t.crash.Sent):
		return nil, errCrashed
	}
	response, err := t.next.RoundTrip(r)
	if !fatal {
		return response, err
	}
	if err == nil {
		_ = response.Body.Close()
	}
	t.crash.kill()
	return nil, errCrashed
}

func (c *Crash) count(r *http.Request) (fatal, dead bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.At > 0 && c.calls >= c.At {
		return false, true
	}
	if !counts(r) {
		return false, false
	}
	c.calls++
	fatal = c.calls == c.At
	if fatal {
		c.call = r.Method + " " + r.URL.Path
		if !c.Sent {
			close(c.dead)
		}
	}
	return fatal, false
}

func (c *Crash) kill() { close(c.dead) }

func counts(r *http.Request) bool {
	if r.Method == http.MethodGet {
		return false
	}
	return !isEvent(r) && !strings.HasSuffix(r.URL.Path, "accessreviews")
}

func isEvent(r *http.Request) bool { return strings.Contains(r.URL.Path+"/", "/events/") }
