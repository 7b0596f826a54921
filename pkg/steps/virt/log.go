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

// Ended adds what was said last of each thing, and more, to an error that
// came because ctx ended.
func (l *Log) Ended(ctx context.Context, err error, more string) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	var stood []string
	for _, topic := range l.topics {
		stood = append(stood, topic+": "+l.last[topic])
	}
	if more != "" {
		stood = append(stood, more)
	}
	return &step.Error{Code: step.ExitCode(err), Err: fmt.Errorf("%w; last seen: %s", err, strings.Join(stood, "; "))}
}
