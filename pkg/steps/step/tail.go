package step

import (
	"io"
	"strings"
	"sync"

	"opdev.io/guestcluster/pkg/apis/guestcluster/v1alpha1"
	"opdev.io/guestcluster/pkg/redact"
)

// tailLines and tailLength bound what is kept of a step's progress: the run's
// pods may be gone before anybody reads their logs.
const (
	tailLines  = 5
	tailLength = 160
)

// tail passes progress on and keeps its last lines.
type tail struct {
	next io.Writer

	mu    sync.Mutex
	lines []string
	open  string
}

// Write implements io.Writer.
func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	parts := strings.Split(t.open+string(text), "\n")
	t.open = v1alpha1.Truncate(parts[len(parts)-1], tailLength)
	for _, line := range parts[:len(parts)-1] {
		if line = strings.TrimSpace(line); line != "" {
			t.lines = append(t.lines, line)
		}
	}
	t.lines = t.lines[max(0, len(t.lines)-tailLines):]
	t.mu.Unlock()
	return t.next.Write(text)
}

// failure is an error and what the step said before it, without credentials.
func (t *tail) failure(err error) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := redact.Text(redact.URLs(err.Error()))
	if len(t.lines) == 0 {
		return text
	}
	// Redacted before it is cut: half a credential would not be known as one.
	lines := strings.Split(redact.Text(strings.Join(t.lines, "\n")), "\n")
	for i, line := range lines {
		lines[i] = v1alpha1.Truncate(line, tailLength)
	}
	return text + "; last lines: " + strings.Join(lines, " | ")
}
