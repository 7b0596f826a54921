package bundle

import (
	"context"
	"fmt"
	"io"
	"time"
)

// body is an answer that is cut when it stays silent for too long.
type body struct {
	io.ReadCloser
	cancel context.CancelFunc
	stall  *time.Timer
}

func watch(answer io.ReadCloser, cancel context.CancelFunc) *body {
	b := &body{answer, cancel, time.AfterFunc(stallTimeout, cancel)}
	b.stall.Stop()
	return b
}

// Read counts only the time that the server takes.
func (b *body) Read(p []byte) (int, error) {
	b.stall.Reset(stallTimeout)
	defer b.stall.Stop()
	return b.ReadCloser.Read(p)
}

func (b *body) close() {
	b.stall.Stop()
	b.cancel()
	b.ReadCloser.Close()
}

// Lines for people are this far apart: in time, or in parts of the whole.
const (
	quiet = 10 * time.Second
	parts = 20
)

// report says how far a download is.
type report struct {
	began, said time.Time
	part        int64
}

func (r *report) line(d *Download) {
	now, part := d.mirror.Now(), int64(0)
	if d.total > 0 {
		part = d.offset * parts / d.total
	}
	if part == r.part && now.Sub(r.said) < quiet {
		return
	}
	r.said, r.part = now, part
	of := ""
	if d.total > 0 {
		of = fmt.Sprintf(" of %s (%d %%)", size(d.total), d.offset*100/d.total)
	}
	rate := float64(d.offset) / max(now.Sub(r.began).Seconds(), 0.001)
	fmt.Fprintf(d.mirror.Progress, "downloaded %s%s, %s/s\n", size(d.offset), of, size(int64(rate)))
}
