package machine

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

const (
	nameTimeout = 3 * time.Second
	nameSize    = 64 << 10
	refused     = 5
)

// serveNames answers at the gateway's port 53 with what the machine's own name
// server says.
func (n *network) serveNames() error {
	return n.inside(func() error {
		packets, err := net.ListenPacket("udp4", ":53")
		if err != nil {
			return fmt.Errorf("serve names: %w", err)
		}
		streams, err := net.Listen("tcp4", ":53")
		if err != nil {
			return fmt.Errorf("serve names: %w", err)
		}
		go relayPackets(packets)
		go relayStreams(streams)
		return nil
	})
}

func relayPackets(packets net.PacketConn) {
	for {
		query := make([]byte, nameSize)
		size, from, err := packets.ReadFrom(query)
		if err != nil {
			return
		}
		go func() {
			if answer := ask("udp", query[:size]); answer != nil {
				_, _ = packets.WriteTo(answer, from)
			}
		}()
	}
}

func relayStreams(streams net.Listener) {
	for {
		conn, err := streams.Accept()
		if err != nil {
			return
		}
		go func() {
			upstream, err := net.DialTimeout("tcp", net.JoinHostPort(upstream(), "53"), nameTimeout)
			if err != nil {
				conn.Close()
				return
			}
			join(conn, upstream)
		}()
	}
}

// ask passes a query on; without a name server the answer is a refusal.
func ask(kind string, query []byte) []byte {
	if len(query) < 12 {
		return nil
	}
	conn, err := net.DialTimeout(kind, net.JoinHostPort(upstream(), "53"), nameTimeout)
	if err != nil {
		return refuse(query)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(nameTimeout))
	if _, err := conn.Write(query); err != nil {
		return refuse(query)
	}
	answer := make([]byte, nameSize)
	size, err := conn.Read(answer)
	if err != nil && err != io.EOF {
		return refuse(query)
	}
	return answer[:size]
}

func refuse(query []byte) []byte {
	flags := binary.BigEndian.Uint16(query[2:])
	binary.BigEndian.PutUint16(query[2:], flags|0x8000|refused)
	return query
}

func upstream() string {
	data, _ := os.ReadFile("/etc/resolv.conf")
	for line := range strings.Lines(string(data)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "nameserver" {
			return words[1]
		}
	}
	return "127.0.0.1"
}
