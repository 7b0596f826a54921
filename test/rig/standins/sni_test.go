package standins

import (
	"crypto/tls"
	"net"
	"testing"
)

func TestServerName(t *testing.T) {
	client, server := net.Pipe()
	go func() {
		_ = tls.Client(client, &tls.Config{ServerName: "api.apps.rig.test", InsecureSkipVerify: true}).Handshake()
	}()
	name, read, err := serverName(server)
	if err != nil || name != "api.apps.rig.test" {
		t.Errorf("got %q, %v", name, err)
	}
	if len(read) == 0 || read[0] != 22 {
		t.Errorf("the hello must be handed on, got %d bytes", len(read))
	}
}

func TestServerNameRefusesPlainText(t *testing.T) {
	client, server := net.Pipe()
	go func() {
		_, _ = client.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		_ = client.Close()
	}()
	if name, _, err := serverName(server); err == nil {
		t.Errorf("got name %q from plain text, want an error", name)
	}
}
