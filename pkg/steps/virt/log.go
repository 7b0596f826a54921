package virt

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"opdev.io/guestcluster/pkg/steps/step"
)

// Log tells where several things stand, each when it changes.
type Log struct {
	// Out gets the lines.
	Out io.Writer
	// Now is the clock.
	Now func() time.Time

	begun  time.Time
	topics []string
	last   map[string]string
}

// Say tells where a thing stands, with the seconds since the first line.
func (l *Log) Say(topic, text string) {
	if l.last == nil {
		l.begun, l.last = l.Now(), map[string]string{}
	}
	old, known := l.last[topic]
	if known && old == text {
		return
	}
	if !known {
		l.topics = append(l.topics, topic)
	}
	l.last[topic] = text
	fmt.Fprintf(l.Out, "%s: %s (%ds)\n", topic, text, int(l.Now().Sub(l.begun).Seconds()))
}

// Explain adds to an error what else is known: the newest warning, when the
// infrastructure failed, and what was said last, when ctx ended.
func (l *Log) Explain(ctx context.Context, err error, warnings *Warnings) error {
	if err == nil || step.ExitCode(err) == step.ExitUser {
		return err
	}
	var known []string
	if ctx.Err() != nil {
		for _, topic := range l.topics {
			known = append(known, topic+": "+l.last[topic])
		}
	}
	if warning := warnings.Text(); warning != "" && !strings.Contains(err.Error(), brief(warnings.newest.Message)) {
		known = append(known, warning)
	}
	if len(known) == 0 {
		return err
	}
	return &step.Error{Code: step.ExitCode(err), Err: fmt.Errorf("%w; last seen: %s", err, strings.Join(known, "; "))}
}
