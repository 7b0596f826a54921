package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	user = "core"
	port = "22"
	// handshakeTimeout bounds a guest that accepts and then says nothing.
	handshakeTimeout = 20 * time.Second
)

// ErrKeysRefused says that the guest runs and accepts none of the keys.
var ErrKeysRefused = errors.New("the guest accepts none of the SSH keys")

// Key is a key of user core.
type Key struct {
	// Name is what messages call it.
	Name   string
	Signer ssh.Signer
}

// Dialer opens connections to the guest.
type Dialer struct {
	Locator Locator
	Pins    *Pins
	// Keys are tried in this order, each on a connection of its own: the server
	// counts every key that it is offered.
	Keys []Key
	// Dial is the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Handshake bounds one try; zero is 20 s.
	Handshake time.Duration
}

// Connect returns a connection whose host key is the pinned one; on first
// contact it is pinned before the connection can be used.
func (d *Dialer) Connect(ctx context.Context) (*Conn, error) {
	machine, pin, err := d.target(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, key := range d.Keys {
		conn, seen, err := d.open(ctx, machine, pin, key)
		if errors.Is(err, ErrKeysRefused) {
			names = append(names, key.Name)
			continue
		}
		if err == nil && pin == nil {
			err = d.Pins.Pin(ctx, machine.UID, seen)
		}
		if err != nil {
			conn.Close()
			return nil, err
		}
		return conn, nil
	}
	return nil, fmt.Errorf("%w (%s)", ErrKeysRefused, strings.Join(names, ", "))
}

// Accepts says whether the guest lets a key in, by a connection with it alone.
func (d *Dialer) Accepts(ctx context.Context, key Key) (bool, error) {
	machine, pin, err := d.target(ctx)
	if err != nil {
		return false, err
	}
	conn, _, err := d.open(ctx, machine, pin, key)
	conn.Close()
	if errors.Is(err, ErrKeysRefused) {
		return false, nil
	}
	return err == nil, err
}

func (d *Dialer) target(ctx context.Context) (Machine, ssh.PublicKey, error) {
	machine, err := d.Locator.Locate(ctx)
	if err != nil {
		return machine, nil, err
	}
	pin, err := d.Pins.Pinned(ctx, machine.UID)
	return machine, pin, err
}

// open makes one connection with one key and returns the host key it met.
func (d *Dialer) open(ctx context.Context, machine Machine, pin ssh.PublicKey, key Key) (*Conn, ssh.PublicKey, error) {
	limit := d.Handshake
	if limit == 0 {
		limit = handshakeTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	address := net.JoinHostPort(machine.Address, port)
	network, err := d.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to SSH of the guest: %w", err)
	}
	check := &hostKey{uid: machine.UID, pin: pin}
	stop := context.AfterFunc(ctx, func() { network.Close() })
	conn, channels, requests, err := ssh.NewClientConn(network, address, clientConfig(key, check))
	if !stop() || err != nil {
		network.Close()
		return nil, nil, check.explain(ctx, err)
	}
	return newConn(ssh.NewClient(conn, channels, requests)), check.seen, nil
}

func clientConfig(key Key, check *hostKey) *ssh.ClientConfig {
	return &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(key.Signer)},
		HostKeyCallback: check.callback, HostKeyAlgorithms: algorithms(check.pin),
	}
}

var refused = regexp.MustCompile(`unable to authenticate|(?i:too many authentication failures)`)

// hostKey compares the key that a handshake meets with the pinned one.
type hostKey struct {
	uid       string
	pin, seen ssh.PublicKey
	changed   error
}

func (h *hostKey) callback(_ string, _ net.Addr, key ssh.PublicKey) error {
	h.seen = key
	if h.pin != nil {
		h.changed = sameKey(h.uid, h.pin, key)
	}
	return h.changed
}

// explain tells a failed handshake's kinds apart. The library has no type for
// refused keys, only texts; a server that is strict hangs up after our one key.
func (h *hostKey) explain(ctx context.Context, err error) error {
	switch {
	case h.changed != nil:
		return h.changed
	case err != nil && refused.MatchString(err.Error()):
		return ErrKeysRefused
	case ctx.Err() != nil:
		return errors.New("the guest's SSH server accepts connections and does not answer")
	}
	return fmt.Errorf("speak SSH with the guest: %w", err)
}

// algorithms asks for the type of the pinned key first, so that a server with
// several host keys shows the one that was pinned.
func algorithms(pin ssh.PublicKey) []string {
	all := []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	if pin == nil {
		return all
	}
	first := []string{pin.Type()}
	if pin.Type() == ssh.KeyAlgoRSA {
		first = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	return append(first, slices.DeleteFunc(all, func(name string) bool { return slices.Contains(first, name) })...)
}
