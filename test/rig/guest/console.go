package guest

import (
	"strings"
	"sync"
)

const consoleSize = 64 << 10

// console keeps the end of what is written to it.
type console struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = append(c.text, p...)
	if extra := len(c.text) - consoleSize; extra > 0 {
		c.text = c.text[extra:]
	}
	return len(p), nil
}

func (c *console) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.text)
}

func (c *console) count(phrase string) int { return strings.Count(c.String(), phrase) }
