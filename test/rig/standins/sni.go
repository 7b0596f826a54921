package standins

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"
)

const helloTimeout = 10 * time.Second

var errEnough = errors.New("client hello read")

// serverName reads a TLS client hello and returns the server name in it with
// the bytes read, which belong to the server that shall answer.
func serverName(conn net.Conn) (string, []byte, error) {
	if err := conn.SetReadDeadline(time.Now().Add(helloTimeout)); err != nil {
		return "", nil, err
	}
	var read bytes.Buffer
	var name string
	err := tls.Server(readOnly{io.TeeReader(conn, &read)}, &tls.Config{
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			name = hello.ServerName
			return nil, errEnough
		},
	}).Handshake()
	if !errors.Is(err, errEnough) {
		return "", nil, err
	}
	return name, read.Bytes(), conn.SetReadDeadline(time.Time{})
}

// readOnly keeps crypto/tls from answering the client.
type readOnly struct{ io.Reader }

func (readOnly) Write([]byte) (int, error)        { return 0, io.ErrClosedPipe }
func (readOnly) Close() error                     { return nil }
func (readOnly) LocalAddr() net.Addr              { return nil }
func (readOnly) RemoteAddr() net.Addr             { return nil }
func (readOnly) SetDeadline(time.Time) error      { return nil }
func (readOnly) SetReadDeadline(time.Time) error  { return nil }
func (readOnly) SetWriteDeadline(time.Time) error { return nil }
