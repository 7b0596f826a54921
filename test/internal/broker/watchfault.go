package broker

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Blindness is what happens to the watch of one kind.
type Blindness string

// Kinds of blindness.
const (
	// Stale: events are held back until Release and then come in order.
	Stale Blindness = "stale"
	// Missed: the stream breaks and its resourceVersion has expired: after
	// Release the list shows the end, and nobody learns what came between.
	Missed Blindness = "missed"
	// Past: a new process gets its first lists from before the event, and only
	// after Release the rest.
	Past Blindness = "past"
)

// Blindfold is a transport that makes its process blind to one kind, from one
// event of it on. The other kinds stay fresh: that is also how events of two
// kinds change their order.
type Blindfold struct {
	// Resource is the kind; From the number of the first event that is not
	// seen, from 1; zero sees all.
	Resource string
	From     int
	How      Blindness

	mu       sync.Mutex
	events   int
	before   string
	expired  bool
	begun    chan struct{}
	released chan struct{}
}

// NewBlindfold makes a Blindfold.
func NewBlindfold(resource string, from int, how Blindness) *Blindfold {
	return &Blindfold{Resource: resource, From: from, How: how, begun: make(chan struct{}), released: make(chan struct{})}
}

// Begun is closed when the first event was not seen.
func (b *Blindfold) Begun() <-chan struct{} { return b.begun }

// Events counts the events of the kind, those of the first list excluded.
func (b *Blindfold) Events() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.events
}

// Release lets everything be seen again.
func (b *Blindfold) Release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.released:
	default:
		close(b.released)
	}
}

// Wrap is for SetOptions.
func (b *Blindfold) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/"+b.Resource) {
			return next.RoundTrip(r)
		}
		if r.URL.Query().Get("watch") != "true" {
			return b.list(next, r)
		}
		return b.watch(next, r)
	})
}

// Reborn is the transport of the process that starts after the blindness
// began: it lives in the past until Release.
func (b *Blindfold) Reborn(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/"+b.Resource) || b.isReleased() {
			return next.RoundTrip(r)
		}
		query := r.URL.Query()
		if query.Get("watch") == "true" {
			response, err := next.RoundTrip(r)
			if err == nil && response.StatusCode == http.StatusOK {
				response.Body = b.hold(r, response.Body)
			}
			return response, err
		}
		// An exact list reads etcd as it was: the real past.
		query.Set("resourceVersion", b.snapshot())
		query.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
		r = r.Clone(r.Context())
		r.URL.RawQuery = query.Encode()
		return next.RoundTrip(r)
	})
}

func (b *Blindfold) snapshot() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.before
}

func (b *Blindfold) isReleased() bool {
	select {
	case <-b.released:
		return true
	default:
		return false
	}
}

// list waits while the stream is broken; live lists of reconcilers do not pass
// here unless the kind's informer has lost its watch.
func (b *Blindfold) list(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	waits := b.expired
	b.mu.Unlock()
	if waits && r.URL.Query().Get("resourceVersion") != "" {
		select {
		case <-b.released:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	response, err := next.RoundTrip(r)
	if err == nil && response.StatusCode == http.StatusOK {
		b.remember(response)
	}
	return response, err
}

// remember keeps the version of the list, the past before the first event.
func (b *Blindfold) remember(response *http.Response) {
	body, err := io.ReadAll(response.Body)
	response.Body = io.NopCloser(bytes.NewReader(body))
	var list struct {
		Metadata metav1.ListMeta `json:"metadata"`
	}
	if err != nil || json.Unmarshal(body, &list) != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.before == "" {
		b.before = list.Metadata.ResourceVersion
	}
}

func (b *Blindfold) watch(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	gone := b.expired
	b.mu.Unlock()
	if gone {
		// Once: after it the informer lists again.
		b.mu.Lock()
		b.expired = false
		b.mu.Unlock()
		<-b.released
		text := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","message":"too old resource version","code":410}`
		return &http.Response{StatusCode: http.StatusGone, Body: io.NopCloser(strings.NewReader(text)), Request: r, Header: http.Header{"Content-Type": {"application/json"}}}, nil
	}
	response, err := next.RoundTrip(r)
	if err == nil && response.StatusCode == http.StatusOK {
		response.Body = b.filter(r, response.Body)
	}
	return response, err
}

// frames copies the events of a stream, each of which pass may delay or end.
func frames(body io.ReadCloser, pass func(line []byte) bool) io.ReadCloser {
	out, in := io.Pipe()
	go func() {
		defer body.Close()
		lines := bufio.NewReader(body)
		for {
			line, err := lines.ReadBytes('\n')
			if len(line) > 0 && !pass(line) {
				err = io.EOF
				line = nil
			}
			if len(line) > 0 {
				if _, writeErr := in.Write(line); writeErr != nil {
					return
				}
			}
			if err != nil {
				_ = in.CloseWithError(err)
				return
			}
		}
	}()
	return closer{out, func() { _ = out.Close(); _ = body.Close() }}
}

type closer struct {
	io.Reader
	end func()
}

// Close implements io.Closer.
func (c closer) Close() error {
	c.end()
	return nil
}

func (b *Blindfold) hold(r *http.Request, body io.ReadCloser) io.ReadCloser {
	return frames(body, func([]byte) bool {
		select {
		case <-b.released:
			return true
		case <-r.Context().Done():
			return false
		}
	})
}

func (b *Blindfold) filter(r *http.Request, body io.ReadCloser) io.ReadCloser {
	return frames(body, func(line []byte) bool {
		if !b.unseen(line) {
			return true
		}
		if b.How == Missed && !b.isReleased() {
			b.mu.Lock()
			b.expired = true
			b.mu.Unlock()
			return false
		}
		select {
		case <-b.released:
			return true
		case <-r.Context().Done():
			return false
		}
	})
}

// watchEvent is what a watch fault must know of an event.
type watchEvent struct {
	Type   string `json:"type"`
	Object struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	} `json:"object"`
}

// readEvent leaves out what is not about one object.
func readEvent(line []byte) (event watchEvent, ok bool) {
	ok = json.Unmarshal(line, &event) == nil && event.Type != "BOOKMARK"
	return event, ok
}

// unseen counts an event and says whether the process must not see it now.
func (b *Blindfold) unseen(line []byte) bool {
	event, ok := readEvent(line)
	if !ok {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events++
	if b.From == 0 || b.events < b.From {
		b.before = event.Object.Metadata.ResourceVersion
		return false
	}
	if b.events == b.From {
		close(b.begun)
	}
	return true
}

// Late delays the events of a stream without changing their order.
func Late(body io.ReadCloser, by time.Duration) io.ReadCloser {
	return frames(body, func([]byte) bool {
		time.Sleep(by)
		return true
	})
}

// Withhold keeps the events of the objects that match from a process until a
// channel is closed; those of all others pass them.
func Withhold(match func(resource, name string) bool, until <-chan struct{}) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if err == nil && response.StatusCode == http.StatusOK && r.URL.Query().Get("watch") == "true" {
				resource := path.Base(r.URL.Path)
				response.Body = withheld(response.Body, until, func(line []byte) bool {
					event, ok := readEvent(line)
					return ok && match(resource, event.Object.Metadata.Name)
				})
			}
			return response, err
		})
	}
}

// withheld copies a stream; held events come last, in their order.
func withheld(body io.ReadCloser, until <-chan struct{}, match func(line []byte) bool) io.ReadCloser {
	out, in := io.Pipe()
	lines := make(chan []byte)
	var end error
	go func() {
		defer close(lines)
		reader := bufio.NewReader(body)
		for end == nil {
			var line []byte
			if line, end = reader.ReadBytes('\n'); len(line) > 0 {
				lines <- line
			}
		}
	}()
	go func() {
		defer body.Close()
		var held []byte
		for {
			select {
			case line, ok := <-lines:
				switch {
				case !ok:
					_ = in.CloseWithError(end)
					return
				case until != nil && match(line):
					held = append(held, line...)
				default:
					_, _ = in.Write(line) // a closed pipe ends with the body
				}
			case <-until:
				until = nil
				_, _ = in.Write(held)
			}
		}
	}()
	return closer{out, func() { _ = out.Close(); _ = body.Close() }}
}
