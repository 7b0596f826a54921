package mirror

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	slowPiece = 16 << 10
	slowPause = 100 * time.Millisecond
)

// faulty changes an answer as the fault says, and tells whether the request is
// answered. cut and changed leave off in the middle unless a range is asked for,
// stuck and stall never get past it. A name that is not known changes nothing.
func (s *Server) faulty(w http.ResponseWriter, r *http.Request, fault string, size int64) (http.ResponseWriter, *http.Request, bool) {
	start, ranged := offset(r)
	left := max(0, size/2-start)
	switch fault {
	case "404", "403", "500", "503":
		code, _ := strconv.Atoi(fault)
		http.Error(w, http.StatusText(code), code)
		return w, r, true
	case "flaky":
		if s.count(r.URL.Path)%2 == 1 {
			http.Error(w, "try again", http.StatusServiceUnavailable)
			return w, r, true
		}
	case "redirect":
		if r.Host != otherHost {
			http.Redirect(w, r, "https://"+otherHost+otherTree+r.URL.Path, http.StatusFound)
			return w, r, true
		}
	case "elsewhere":
		if r.Host != rigHost {
			http.Redirect(w, r, "http://"+rigHost+r.URL.Path, http.StatusFound)
			return w, r, true
		}
	case "loop":
		http.Redirect(w, r, r.URL.Path, http.StatusFound)
		return w, r, true
	case "slow":
		w = &slow{w, r}
	case "stuck":
		w = &bounded{w, left, abort}
	case "stall":
		w = &bounded{w, left, func() { <-r.Context().Done(); abort() }}
	case "cut":
		if !ranged {
			w = &bounded{w, left, abort}
		}
	case "changed":
		return s.changed(w, r, ranged, left)
	}
	return w, r, false
}

// changed plays a file that was replaced between two requests.
func (s *Server) changed(w http.ResponseWriter, r *http.Request, ranged bool, left int64) (http.ResponseWriter, *http.Request, bool) {
	if !ranged {
		return &bounded{w, left, abort}, r, false
	}
	r = r.Clone(r.Context())
	r.Header.Del("Range")
	w.Header().Set("ETag", `"changed"`)
	return w, r, false
}

// offset is where a request's range begins.
func offset(r *http.Request) (int64, bool) {
	from, found := strings.CutPrefix(r.Header.Get("Range"), "bytes=")
	if !found {
		return 0, false
	}
	from, _, _ = strings.Cut(from, "-")
	start, _ := strconv.ParseInt(from, 10, 64)
	return start, true
}

func (s *Server) count(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == nil {
		s.asked = map[string]int{}
	}
	s.asked[path]++
	return s.asked[path]
}

// abort ends the connection without the rest of the answer.
func abort() { panic(http.ErrAbortHandler) }

// bounded lets some bytes through and then does what is at the end.
type bounded struct {
	http.ResponseWriter
	left int64
	end  func()
}

func (b *bounded) Write(p []byte) (int, error) {
	if int64(len(p)) <= b.left {
		b.left -= int64(len(p))
		return b.ResponseWriter.Write(p)
	}
	n, err := b.ResponseWriter.Write(p[:b.left])
	b.left = 0
	if err != nil {
		return n, err
	}
	if err := http.NewResponseController(b.ResponseWriter).Flush(); err != nil {
		return n, err
	}
	b.end()
	return n, http.ErrAbortHandler
}

// slow waits after every piece.
type slow struct {
	http.ResponseWriter
	request *http.Request
}

func (s *slow) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		n, err := s.ResponseWriter.Write(p[written:min(len(p), written+slowPiece)])
		written += n
		if err != nil {
			return written, err
		}
		if err := http.NewResponseController(s.ResponseWriter).Flush(); err != nil {
			return written, err
		}
		select {
		case <-s.request.Context().Done():
			return written, s.request.Context().Err()
		case <-time.After(slowPause):
		}
	}
	return written, nil
}
