package fakeapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// Object is an object as JSON decodes it.
type Object = map[string]any

// Server is the fake API.
type Server struct {
	mu      sync.Mutex
	objects map[string]Object // by path
	events  []event
	version int
	changed chan struct{} // closed and replaced at each change
	cut     chan struct{} // closed and replaced to end all watches
	fault   func(*http.Request) int
	before  func(http.ResponseWriter, *http.Request) bool
	calls   []string
	url     string
}

type event struct {
	version            int
	kind, path, parent string
	object             Object
}

// Start runs a server until the test ends.
func Start(t *testing.T) *Server {
	t.Helper()
	s := &Server{objects: map[string]Object{}, changed: make(chan struct{}), cut: make(chan struct{})}
	server := httptest.NewServer(s)
	s.url = server.URL
	t.Cleanup(func() { s.CutWatches(); server.CloseClientConnections(); server.Close() })
	return s
}

// Config is a client configuration for the server, which speaks only JSON.
func (s *Server) Config() *rest.Config {
	return &rest.Config{Host: s.url, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// Fault makes requests fail with the status that f returns; 0 lets one pass.
func (s *Server) Fault(f func(*http.Request) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// Before runs f ahead of each request; f may change objects, or answer the
// request itself and return true.
func (s *Server) Before(f func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = f
}

// CutWatches ends all running watches.
func (s *Server) CutWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.cut)
	s.cut = make(chan struct{})
}

// Calls lists the requests so far as "VERB path".
func (s *Server) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.calls...)
}

// Put stores a typed object under a path such as
// /apis/guestcluster.opdev.io/v1alpha1/namespaces/ci/clusterleases/a.
func (s *Server) Put(path string, typed any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(path, decode(typed))
}

// Get reads the object under a path into a typed one; false if there is none.
func (s *Server) Get(path string, into any) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	object, ok := s.objects[path]
	if ok {
		raw, _ := json.Marshal(object)
		if err := json.Unmarshal(raw, into); err != nil {
			panic(err)
		}
	}
	return ok
}

// Merge applies a merge patch, given as YAML, to the object under a path if
// there is one.
func (s *Server) Merge(path, patch string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change := Object{}
	if err := yaml.Unmarshal([]byte(patch), &change); err != nil {
		panic(err)
	}
	if old, ok := s.objects[path]; ok {
		object := decode(old)
		merge(object, change)
		s.store(path, object)
	}
}

// Remove deletes the object under a path.
func (s *Server) Remove(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(path)
}

// store fills in what the server owns and tells the watches.
func (s *Server) store(path string, object Object) {
	kind, meta := "ADDED", metadata(object)
	if old, ok := s.objects[path]; ok {
		kind = "MODIFIED"
		meta["uid"], meta["creationTimestamp"] = metadata(old)["uid"], metadata(old)["creationTimestamp"]
	}
	s.version++
	if uid, _ := meta["uid"].(string); uid == "" {
		meta["uid"] = fmt.Sprintf("uid-%d", s.version)
	}
	if meta["creationTimestamp"] == nil {
		meta["creationTimestamp"] = "2030-01-01T00:00:00Z"
	}
	meta["resourceVersion"] = strconv.Itoa(s.version)
	s.objects[path] = object
	s.record(kind, path, object)
}

func (s *Server) remove(path string) {
	if object, ok := s.objects[path]; ok {
		s.version++
		delete(s.objects, path)
		s.record("DELETED", path, object)
	}
}

func (s *Server) record(kind, path string, object Object) {
	parent := path[:strings.LastIndex(path, "/")]
	s.events = append(s.events, event{s.version, kind, path, parent, decode(object)})
	close(s.changed)
	s.changed = make(chan struct{})
}

func metadata(object Object) Object {
	meta, ok := object["metadata"].(Object)
	if !ok {
		meta = Object{}
		object["metadata"] = meta
	}
	return meta
}

func decode(v any) Object {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	object := Object{}
	if err := json.Unmarshal(raw, &object); err != nil {
		panic(err)
	}
	return object
}
