package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"opdev.io/guestcluster/pkg/redact"
	"opdev.io/guestcluster/pkg/steps/step"
)

const (
	// commandTimeout bounds a command that names no other.
	commandTimeout = 30 * time.Second
	// patience is how often in a row the guest may refuse all keys.
	patience = 5
)

// Command is one command line of the guest's shell. The line is constant text:
// content goes to its standard input, so that no secret is seen in the guest's
// process list or journal.
type Command struct {
	// Doing completes "could not ..." in messages.
	Doing string
	Line  string
	Stdin []byte
	// Timeout is 30 s when zero.
	Timeout time.Duration
}

// Link is a way into the guest that is opened when it is needed and again when
// it broke. A command that broke off is not repeated: its caller knows whether it may be.
type Link struct {
	dialer *Dialer

	mu      sync.Mutex
	conn    *Conn
	refused int
}

// NewLink returns a link that is not open yet.
func NewLink(dialer *Dialer) *Link { return &Link{dialer: dialer} }

// Close ends the connection, so that the next command opens another one.
func (l *Link) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn.Close()
	l.conn = nil
}

// Try executes a command and returns its exit code with its output.
func (l *Link) Try(ctx context.Context, c Command) (Output, error) {
	out, err := l.once(ctx, c)
	if errors.Is(err, errIdle) {
		out, err = l.once(ctx, c)
	}
	if err != nil {
		return Output{}, fmt.Errorf("%s: %w", c.Doing, err)
	}
	if out.Code != 0 && strings.HasPrefix(out.Stderr, "sudo:") {
		return Output{}, step.UserError("%s: user core of the guest may not use sudo without a password (%s): the disk is not that of an unchanged CRC bundle; "+
			"use an official bundle's disk in the pool's template", c.Doing, said(out.Stderr))
	}
	return out, nil
}

// once executes a command on the connection that is open, or on a new one.
func (l *Link) once(ctx context.Context, c Command) (Output, error) {
	conn, err := l.open(ctx)
	if err != nil {
		return Output{}, err
	}
	limit := c.Timeout
	if limit == 0 {
		limit = commandTimeout
	}
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, err := conn.run(timed, c.Line, c.Stdin)
	l.drop(conn, err)
	return out, err
}

// Run executes a command that must succeed and returns what it printed.
func (l *Link) Run(ctx context.Context, c Command) ([]byte, error) {
	out, err := l.Try(ctx, c)
	if err != nil {
		return nil, err
	}
	if out.Code != 0 {
		return nil, fmt.Errorf("%s: exit code %d in the guest: %s", c.Doing, out.Code, said(out.Stderr))
	}
	return out.Stdout, nil
}

// Dial connects to an address as the guest sees it.
func (l *Link) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	conn, err := l.open(ctx)
	if err != nil {
		return nil, err
	}
	timed, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	tunnel, err := conn.dial(timed, address)
	if err != nil {
		l.drop(conn, err)
		return nil, fmt.Errorf("connect to %s in the guest: %w", address, err)
	}
	return tunnel, nil
}

// open returns the connection, made anew when there is none.
func (l *Link) open(ctx context.Context) (*Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		return l.conn, nil
	}
	conn, err := l.dialer.Connect(ctx)
	if !errors.Is(err, ErrKeysRefused) {
		l.conn, l.refused = conn, 0
		return conn, err
	}
	if l.refused++; l.refused < patience {
		return nil, err
	}
	return nil, step.UserError("%w: the boot key does not fit the disk; check the Secret of template.bundleSSHKeyRef or the bundle's boot key", err)
}

// drop forgets a connection that broke; a newer one stays.
func (l *Link) drop(conn *Conn, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(err, errBroken) && l.conn == conn {
		l.conn = nil
	}
}

// said is what the guest printed, fit for a message of one line.
func said(text string) string {
	text = redact.Text(strings.Join(strings.Fields(text), " "))
	if len(text) > 300 {
		text = text[:300] + "..."
	}
	if text == "" {
		return "it printed nothing"
	}
	return text
}
