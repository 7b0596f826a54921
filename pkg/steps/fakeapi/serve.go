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
	if before := s.script(); before != nil && before(w, r) {
		return
	}
	if code := s.admit(r); code != 0 {
		Refuse(w, code, "fault on demand")
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
		s.read(w, r)
	case http.MethodPost:
		s.create(w, r)
	case http.MethodPatch:
		s.patch(w, r)
	case http.MethodDelete:
		s.delete(w, r)
	default:
		Refuse(w, http.StatusMethodNotAllowed, r.Method)
	}
}

func (s *Server) script() func(http.ResponseWriter, *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.before
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

func (s *Server) read(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if object, ok := s.objects[path]; ok {
		answer(w, http.StatusOK, object)
		return
	}
	if fields := r.URL.Query().Get("fieldSelector"); fields != "" {
		answer(w, http.StatusOK, Object{"kind": "List", "apiVersion": "v1", "items": s.list(path, fields)})
		return
	}
	Refuse(w, http.StatusNotFound, path)
}

// list returns the objects below a path whose fields are as told: a=b,c.d=e.
func (s *Server) list(parent, fields string) []Object {
	found := []Object{}
	for path, object := range s.objects {
		if path[:strings.LastIndex(path, "/")] == parent && selected(object, fields) {
			found = append(found, object)
		}
	}
	return found
}

func selected(object Object, fields string) bool {
	for _, term := range strings.Split(fields, ",") {
		name, want, _ := strings.Cut(term, "=")
		var value any = object
		for _, key := range strings.Split(name, ".") {
			below, _ := value.(Object)
			value = below[key]
		}
		if value != any(want) {
			return false
		}
	}
	return true
}

func (s *Server) create(w http.ResponseWriter, r *http.Request) {
	object := Object{}
	if err := json.NewDecoder(r.Body).Decode(&object); err != nil {
		Refuse(w, http.StatusBadRequest, err.Error())
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
		Refuse(w, http.StatusNotFound, r.URL.Path)
		return
	}
	change := Object{}
	if err := json.NewDecoder(r.Body).Decode(&change); err != nil {
		Refuse(w, http.StatusBadRequest, err.Error())
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
		Refuse(w, http.StatusNotFound, r.URL.Path)
		return
	}
	var options struct {
		Preconditions Object `json:"preconditions"`
	}
	if raw, _ := io.ReadAll(r.Body); len(raw) > 0 {
		if err := json.Unmarshal(raw, &options); err != nil {
			Refuse(w, http.StatusBadRequest, err.Error())
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
			Refuse(w, http.StatusConflict, fmt.Sprintf("%s is %v, not %v", key, metadata(object)[key], v))
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

// Refuse answers with a Status as an API server does.
func Refuse(w http.ResponseWriter, code int, message string) {
	reasons := map[int]string{
		http.StatusNotFound: "NotFound", http.StatusConflict: "Conflict",
		http.StatusForbidden: "Forbidden", http.StatusGone: "Expired",
	}
	answer(w, code, status(code, reasons[code], message))
}

func status(code int, reason, message string) Object {
	return Object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message}
}
