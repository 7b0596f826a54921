package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	// maxOutput bounds what a command may print, maxErrors what is kept of its errors.
	maxOutput = 4 << 20
	maxErrors = 4 << 10
	// aliveEvery and aliveWithin end a connection whose guest went away silently.
	aliveEvery  = 10 * time.Second
	aliveWithin = 15 * time.Second
)

// Conn is one SSH connection.
type Conn struct {
	client *ssh.Client
	done   chan struct{}
	once   sync.Once
}

func newConn(client *ssh.Client) *Conn {
	c := &Conn{client: client, done: make(chan struct{})}
	go c.stayAlive()
	return c
}

// Close ends the connection; closing none, or one twice, is fine.
func (c *Conn) Close() {
	if c == nil {
		return
	}
	c.once.Do(func() { close(c.done); c.client.Close() })
}

func (c *Conn) stayAlive() {
	ticker := time.NewTicker(aliveEvery)
	defer ticker.Stop()
	for {
		select {
		case <-c.done:
			return
		case <-ticker.C:
		}
		late := time.AfterFunc(aliveWithin, c.Close)
		_, _, err := c.client.SendRequest("keepalive@openssh.com", true, nil)
		late.Stop()
		if err != nil {
			c.Close()
			return
		}
	}
}

// Output is what a command left behind.
type Output struct {
	Stdout []byte
	Stderr string
	Code   int
}

// errBroken says that the connection is of no more use, errIdle that it was
// before anything was asked of it.
var (
	errBroken = errors.New("the SSH connection broke")
	errIdle   = errors.New("it broke while it was idle")
)

// run executes a command line. An exit code is no error; an error means that
// nobody knows how far the command came.
func (c *Conn) run(ctx context.Context, line string, stdin []byte) (Output, error) {
	stop := context.AfterFunc(ctx, c.Close)
	defer stop()
	session, err := c.client.NewSession()
	if err != nil {
		return Output{}, fmt.Errorf("%w: %w", c.broken(ctx, err), errIdle)
	}
	defer session.Close()
	stdout, stderr := &head{left: maxOutput}, &tail{keep: maxErrors}
	session.Stdin, session.Stdout, session.Stderr = input(stdin), stdout, stderr
	err = session.Run(line)
	out := Output{Stdout: stdout.kept, Stderr: stderr.text()}
	var exit *ssh.ExitError
	switch {
	case stdout.full:
		return Output{}, fmt.Errorf("the guest printed more than %d bytes", maxOutput)
	case errors.As(err, &exit) && exit.Signal() == "":
		out.Code = exit.ExitStatus()
	case err != nil:
		return Output{}, c.broken(ctx, err)
	}
	return out, nil
}

func (c *Conn) broken(ctx context.Context, err error) error {
	c.Close()
	if ctx.Err() != nil {
		err = errors.New("no answer in time")
	}
	return fmt.Errorf("%w: %w", errBroken, err)
}

// dial opens a connection from within the guest.
func (c *Conn) dial(ctx context.Context, address string) (net.Conn, error) {
	stop := context.AfterFunc(ctx, c.Close)
	defer stop()
	conn, err := c.client.Dial("tcp", address)
	var refused *ssh.OpenChannelError
	if err != nil && !errors.As(err, &refused) {
		return nil, c.broken(ctx, err)
	}
	return conn, err
}
