package fakeguest

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"

	"golang.org/x/crypto/ssh"
)

// serveSSH serves one connection.
func (g *Guest) serveSSH(network net.Conn, hostKey ssh.Signer, dropAfter int) {
	defer network.Close()
	config := &ssh.ServerConfig{
		MaxAuthTries: 1,
		PublicKeyCallback: func(meta ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if meta.User() == "core" && g.authorized(key) {
				return nil, nil
			}
			return nil, errors.New("refused")
		},
	}
	config.AddHostKey(hostKey)
	_, channels, requests, err := ssh.NewServerConn(network, config)
	if err != nil {
		return
	}
	go func() {
		for r := range requests {
			_ = r.Reply(r.WantReply, nil)
		}
	}()
	var commands atomic.Int32
	for channel := range channels {
		switch channel.ChannelType() {
		case "session":
			go g.session(channel, func() {
				if n := int(commands.Add(1)); dropAfter > 0 && n >= dropAfter {
					network.Close()
				}
			})
		case "direct-tcpip":
			go g.tunnel(channel)
		default:
			_ = channel.Reject(ssh.UnknownChannelType, "no")
		}
	}
}

// session runs one command.
func (g *Guest) session(offered ssh.NewChannel, done func()) {
	channel, requests, err := offered.Accept()
	if err != nil {
		return
	}
	defer done()
	defer channel.Close()
	for r := range requests {
		if r.Type != "exec" {
			_ = r.Reply(false, nil)
			continue
		}
		var exec struct{ Line string }
		if ssh.Unmarshal(r.Payload, &exec) != nil {
			return
		}
		_ = r.Reply(true, nil)
		stdin, err := io.ReadAll(channel)
		if err != nil {
			return
		}
		g.note(exec.Line)
		stdout, stderr, code := g.execute(exec.Line, stdin)
		_, _ = io.WriteString(channel, stdout)
		_, _ = io.WriteString(channel.Stderr(), stderr)
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(code)}))
		return
	}
}

// tunnel connects to the API server while there is one.
func (g *Guest) tunnel(offered ssh.NewChannel) {
	var to struct {
		Host string
		Port uint32
		From string
		At   uint32
	}
	if ssh.Unmarshal(offered.ExtraData(), &to) != nil || to.Host != "127.0.0.1" || to.Port != 6443 || !g.apiRuns() {
		_ = offered.Reject(ssh.ConnectionFailed, "Connection refused")
		return
	}
	api, err := net.Dial("tcp", g.listen)
	if err != nil {
		_ = offered.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	channel, requests, err := offered.Accept()
	if err != nil {
		api.Close()
		return
	}
	go ssh.DiscardRequests(requests)
	go func() { _, _ = io.Copy(api, channel); api.Close() }()
	_, _ = io.Copy(channel, api)
	channel.Close()
}

// execute plays a command.
func (g *Guest) execute(line string, stdin []byte) (stdout, stderr string, code int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	account := "core"
	if rest, ok := strings.CutPrefix(line, "sudo -n "); ok {
		if line, account = rest, "root"; g.SudoDenied {
			return "", "sudo: a password is required\n", 1
		}
	}
	for _, c := range commands {
		if match := c.pattern.FindStringSubmatch(line); match != nil {
			return c.run(g, call{match, stdin, account})
		}
	}
	g.t.Errorf("the fake guest does not know the command %q", line)
	return "", "command not found\n", 127
}
