package fakeapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// ServeHTTP serves one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if code := s.admit(r); code != 0 {
		fail(w, code, "fault on demand")
		return
	}
	if r.URL.Query().Get("watch") == "true" || r.URL.Query().Get("watch") == "1" {
		s.watch(w, r)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.Method {
	case http.MethodGet:
		s.read(w, r.URL.Path)
	case http.MethodPost:
		s.create(w, r)
	case http.MethodPatch:
		s.patch(w, r)
	case http.MethodDelete:
		s.delete(w, r)
	default:
		fail(w, http.StatusMethodNotAllowed, r.Method)
	}
}

func (s *Server) admit(r *http.Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	verb := r.Method
	if r.URL.Query().Get("watch") != "" {
		verb = "WATCH"
	}
	s.calls = append(s.calls, verb+" "+r.URL.Path)
	if s.fault == nil {
		return 0
	}
	return s.fault(r)
}

func (s *Server) read(w http.ResponseWriter, path string) {
	object, ok := s.objects[path]
	if !ok {
		fail(w, http.StatusNotFound, path)
		return
	}
	answer(w, http.StatusOK, object)
}

func (s *Server) create(w http.ResponseWriter, r *http.Request) {
	object := Object{}
	if err := json.NewDecoder(r.Body).Decode(&object); err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	path := fmt.Sprintf("%s/%s", r.URL.Path, metadata(object)["name"])
	if _, ok := s.objects[path]; ok {
		answer(w, http.StatusConflict, status(http.StatusConflict, "AlreadyExists", path))
		return
	}
	s.store(path, object)
	answer(w, http.StatusCreated, object)
}

func (s *Server) patch(w http.ResponseWriter, r *http.Request) {
	old, ok := s.objects[r.URL.Path]
	if !ok {
		fail(w, http.StatusNotFound, r.URL.Path)
		return
	}
	change := Object{}
	if err := json.NewDecoder(r.Body).Decode(&change); err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	if !s.matches(w, old, metadata(change)) {
		return
	}
	object := decode(old)
	merge(object, change)
	s.store(r.URL.Path, object)
	answer(w, http.StatusOK, object)
}

func (s *Server) delete(w http.ResponseWriter, r *http.Request) {
	old, ok := s.objects[r.URL.Path]
	if !ok {
		fail(w, http.StatusNotFound, r.URL.Path)
		return
	}
	var options struct {
		Preconditions Object `json:"preconditions"`
	}
	if raw, _ := io.ReadAll(r.Body); len(raw) > 0 {
		if err := json.Unmarshal(raw, &options); err != nil {
			fail(w, http.StatusBadRequest, err.Error())
			return
		}
	}
	if s.matches(w, old, options.Preconditions) {
		s.remove(r.URL.Path)
		answer(w, http.StatusOK, Object{"kind": "Status", "apiVersion": "v1", "status": "Success"})
	}
}

// matches refuses a write that was meant for another version of the object.
func (s *Server) matches(w http.ResponseWriter, object, wanted Object) bool {
	for _, key := range []string{"uid", "resourceVersion"} {
		if v, ok := wanted[key]; ok && v != metadata(object)[key] {
			fail(w, http.StatusConflict, fmt.Sprintf("%s is %v, not %v", key, metadata(object)[key], v))
			return false
		}
	}
	return true
}

// watch streams the events after the given version.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	s.mu.Lock()
	cut := s.cut
	s.mu.Unlock()
	for {
		news, changed := s.since(r.URL.Path, name, from)
		for _, e := range news {
			from = e.version
			_ = json.NewEncoder(w).Encode(Object{"type": e.kind, "object": e.object})
		}
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-cut:
			return
		case <-r.Context().Done():
			return
		}
	}
}

func (s *Server) since(parent, name string, from int) ([]event, chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var news []event
	for _, e := range s.events {
		if e.version > from && e.parent == parent && (name == "" || strings.HasSuffix(e.path, "/"+name)) {
			news = append(news, e)
		}
	}
	return news, s.changed
}

// merge applies a JSON merge patch.
func merge(into, change Object) {
	for key, v := range change {
		below, isObject := v.(Object)
		old, wasObject := into[key].(Object)
		switch {
		case v == nil:
			delete(into, key)
		case isObject && wasObject:
			merge(old, below)
		default:
			into[key] = v
		}
	}
}

func answer(w http.ResponseWriter, code int, object Object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object)
}

func fail(w http.ResponseWriter, code int, message string) {
	reasons := map[int]string{
		http.StatusNotFound: "NotFound", http.StatusConflict: "Conflict",
		http.StatusForbidden: "Forbidden", http.StatusGone: "Expired",
	}
	answer(w, code, status(code, reasons[code], message))
}

func status(code int, reason, message string) Object {
	return Object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message}
}
