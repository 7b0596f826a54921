package guest

import (
	"bytes"
	"io"
	"strings"
)

// head keeps the start of what is written and notes that there was more.
type head struct {
	kept []byte
	left int
	full bool
}

func (h *head) Write(p []byte) (int, error) {
	n := min(len(p), h.left)
	h.kept, h.left = append(h.kept, p[:n]...), h.left-n
	h.full = h.full || n < len(p)
	return len(p), nil
}

// tail keeps the end of what is written.
type tail struct {
	kept []byte
	keep int
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - t.keep; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

func (t *tail) text() string { return strings.TrimSpace(strings.ToValidUTF8(string(t.kept), "?")) }

// input is never nil: a session without one waits for nothing, but says so late.
func input(stdin []byte) io.Reader { return bytes.NewReader(stdin) }
