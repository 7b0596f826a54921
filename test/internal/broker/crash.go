package broker

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// errCrashed is what a dead process's requests get.
var errCrashed = errors.New("this controller has crashed")

// Failure is what happens to one call.
type Failure string

// Failures of a call.
const (
	// Unsent: it never reaches the server.
	Unsent Failure = "unsent"
	// Unanswered: the server does it, the answer is lost.
	Unanswered Failure = "unanswered"
	// Overtaken: somebody else writes the object between the controller's read
	// and this call, or makes it first; the answer is honest, mostly a conflict.
	Overtaken Failure = "overtaken"
	// Refused: the server answers 500 and does nothing.
	Refused Failure = "refused"
)

// Failures are all of them.
var Failures = []Failure{Unsent, Unanswered, Overtaken, Refused}

// Crash is a transport in which one mutating call fails. Unless Survive, the
// process dies of it: from then on no request of it reaches the API server.
// Events and access reviews change nothing that matters and are not counted.
type Crash struct {
	// At is the number of the call, from 1; zero never fails.
	At int
	// How the call fails.
	How Failure
	// Survive: the process goes on.
	Survive bool
	// Only counts the calls that it accepts; nil counts all.
	Only func(*http.Request) bool

	mu    sync.Mutex
	calls int
	fatal chan struct{}
	call  string
}

// NewCrash makes a Crash at a call, sent or not.
func NewCrash(at int, sent bool) *Crash {
	c := NewFailure(at, Unsent, false)
	if sent {
		c.How = Unanswered
	}
	return c
}

// NewFailure makes a Crash of any kind.
func NewFailure(at int, how Failure, survive bool) *Crash {
	return &Crash{At: at, How: how, Survive: survive, fatal: make(chan struct{})}
}

// String names the point.
func (c *Crash) String() string {
	text := fmt.Sprintf("call %d %s", c.At, c.How)
	if c.Survive {
		return text + ", goes on"
	}
	return text + ", restart"
}

// Dead is closed when the call has failed.
func (c *Crash) Dead() <-chan struct{} { return c.fatal }

// Calls counts mutating calls.
func (c *Crash) Calls() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}

// Call is the method and path of the call that failed.
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
		return reply(r, http.StatusOK, `{"kind":"Event","apiVersion":"v1"}`), nil
	case dead:
		return nil, errCrashed
	case !fatal:
		return t.next.RoundTrip(r)
	}
	defer close(t.crash.fatal)
	switch t.crash.How {
	case Overtaken:
		if err := overtake(t.next, r); err != nil {
			return nil, err
		}
		return t.next.RoundTrip(r)
	case Refused:
		return answer(r, http.StatusInternalServerError), nil
	case Unanswered:
		response, err := t.next.RoundTrip(r)
		if err == nil {
			_ = response.Body.Close()
		}
	case Unsent:
	}
	return nil, errCrashed
}

func (c *Crash) count(r *http.Request) (fatal, dead bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.At > 0 && c.calls >= c.At && !c.Survive {
		return false, true
	}
	if !Mutates(r) || (c.Only != nil && !c.Only(r)) {
		return false, false
	}
	c.calls++
	fatal = c.calls == c.At
	if fatal {
		c.call = r.Method + " " + r.URL.Path
	}
	return fatal, false
}

// overtake makes what the request would make, or changes what it would change.
func overtake(next http.RoundTripper, r *http.Request) error {
	var other *http.Request
	switch r.Method {
	case http.MethodPost:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		other = r.Clone(r.Context())
		other.Body = io.NopCloser(bytes.NewReader(body))
	default:
		other = r.Clone(r.Context())
		other.Method = http.MethodPatch
		other.URL.Path = strings.TrimSuffix(r.URL.Path, "/status")
		other.URL.RawQuery = ""
		patch := []byte(`{"metadata":{"annotations":{"test/overtaken":"true"}}}`)
		other.Body, other.ContentLength = io.NopCloser(bytes.NewReader(patch)), int64(len(patch))
		other.GetBody = nil
		other.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := next.RoundTrip(other)
	if err == nil {
		_ = response.Body.Close()
	}
	return err
}

func answer(r *http.Request, code int) *http.Response {
	return reply(r, code, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","message":"injected","code":%d}`, code))
}

func reply(r *http.Request, code int, text string) *http.Response {
	return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(text)), Request: r, Header: http.Header{"Content-Type": {"application/json"}}}
}

// Mutates says whether a request changes anything that matters.
func Mutates(r *http.Request) bool {
	if r.Method == http.MethodGet {
		return false
	}
	return !isEvent(r) && !strings.HasSuffix(r.URL.Path, "accessreviews")
}

func isEvent(r *http.Request) bool { return strings.Contains(r.URL.Path+"/", "/events/") }
