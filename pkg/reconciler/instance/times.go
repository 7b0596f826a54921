package instance

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// times remembers when something was last done for an instance. Losing it
// costs one look too many.
type times struct {
	mu   sync.Mutex
	last map[types.UID]time.Time
}

func newTimes() *times { return &times{last: map[types.UID]time.Time{}} }

// due says whether every has passed since the last time it said so.
func (t *times) due(uid types.UID, now time.Time, every time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, ok := t.last[uid]; ok && now.Sub(last) < every {
		return false
	}
	t.last[uid] = now
	return true
}

func (t *times) forget(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.last, uid)
}
