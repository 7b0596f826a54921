package fakeguest

import (
	"context"
	"crypto/x509/pkix"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"opdev.io/guestcluster/pkg/steps/fakeapi"
	"opdev.io/guestcluster/pkg/steps/guest"
)

// Addresses of the guest.
const (
	// PodAddress is how the step reaches it, Address how it sees itself.
	PodAddress = "10.128.0.7"
	Address    = "10.0.2.2"
	// Upstream is the name server that it got by DHCP.
	Upstream = "10.0.2.3"
)

// Faults are ways to misbehave. They may be changed between runs.
type Faults struct {
	Refuse, Hang bool
	// DropAfter ends every connection after so many commands.
	DropAfter     int
	SudoDenied    bool
	NoOVS, TwoXFS bool
	// NoIPv6: the bridge has no IPv6 and takes no name servers of it.
	NoIPv6         bool
	APINever       bool
	CSRNever       bool
	OperatorsNever bool
	MCONever       bool
	// OldKeyReturns makes the operators authorize the bundle's key once more.
	OldKeyReturns bool
}

// File is a file of the guest.
type File struct {
	Content []byte
	Mode    string
	Owner   string
}

// Guest is the fake. Its fields may be read and set while nothing runs.
type Guest struct {
	Faults
	Files map[string]File
	// BootKey is the bundle's private key.
	BootKey []byte
	// UID is the VirtualMachineInstance's.
	UID string
	// API holds the guest's objects.
	API *fakeapi.Server
	// OnCommand is called with each command line and each write to the API.
	OnCommand func(line string)

	t       testing.TB
	mu      sync.Mutex
	said    []string
	units   map[string]string // "active", "enabled" or both
	con     []string          // NetworkManager's own servers
	hostKey ssh.Signer
	client  *Authority // signs the kubelet's certificates
	server  *Authority // signs the API's
	own     []byte     // the API's certificate and key
	ownKey  []byte
	state   reactions
	listen  string
	silent  []net.Conn
}

// Start parks a guest whose certificates have expired and serves it until the
// test ends.
func Start(t *testing.T) *Guest {
	t.Helper()
	g := &Guest{
		t: t, UID: "vmi-1", Files: map[string]File{}, BootKey: NewSSHKey(t), API: fakeapi.Start(t), units: map[string]string{"sshd": "active enabled"},
		client: NewAuthority(t, "kubelet-signer"), server: NewAuthority(t, "loadbalancer-signer"),
	}
	g.own, g.ownKey = g.server.Issue(t, pkix.Name{CommonName: guest.APIName}, time.Now().Add(time.Hour), guest.APIName, "api-int.crc.testing")
	g.NewHostKey()
	g.park()
	g.serveAPI()
	return g
}

// NewHostKey gives the guest another SSH host key.
func (g *Guest) NewHostKey() {
	signer, err := ssh.ParsePrivateKey(NewSSHKey(g.t))
	if err != nil {
		g.t.Fatal(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hostKey = signer
}

// Locate makes the guest its own locator.
func (g *Guest) Locate(context.Context) (guest.Machine, error) {
	return guest.Machine{UID: g.UID, Address: PodAddress}, nil
}

// Dial is the network to the guest.
func (g *Guest) Dial(_ context.Context, _, address string) (net.Conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.Refuse || address != PodAddress+":22" {
		return nil, errors.New("connection refused")
	}
	ours, theirs := loopback(g.t)
	if g.Hang {
		g.silent = append(g.silent, theirs) // one that nobody holds is closed
		return ours, nil
	}
	go g.serveSSH(theirs, g.hostKey, g.DropAfter)
	return ours, nil
}

// Said lists the command lines and the writes to the API, in order.
func (g *Guest) Said() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.said...)
}

// Forget empties what Said lists.
func (g *Guest) Forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.said = nil
}

func (g *Guest) note(line string) {
	g.mu.Lock()
	g.said = append(g.said, line)
	hook := g.OnCommand
	g.mu.Unlock()
	if hook != nil {
		hook(line)
	}
}

// File returns the content of a file as text.
func (g *Guest) File(path string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return string(g.Files[path].Content)
}

// SetFile writes a file as an operator of the guest would.
func (g *Guest) SetFile(path, content string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Files[path] = File{Content: []byte(content), Mode: "0600", Owner: "root"}
}

// Accepts says whether a private key opens the guest.
func (g *Guest) Accepts(key []byte) bool {
	signer, err := ssh.ParsePrivateKey(key)
	if err != nil {
		g.t.Fatal(err)
	}
	return g.authorized(signer.PublicKey())
}

func (g *Guest) authorized(key ssh.PublicKey) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, path := range []string{authorizedKeys, ignitionKeys} {
		for line := range strings.Lines(string(g.Files[path].Content)) {
			known, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
			if err == nil && string(known.Marshal()) == string(key.Marshal()) {
				return true
			}
		}
	}
	return false
}

// loopback is a pair of connected TCP connections: unlike a pipe's, their
// writes do not wait for the reader.
func loopback(t testing.TB) (ours, theirs net.Conn) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if ours, err = net.Dial("tcp", listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if theirs, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}
