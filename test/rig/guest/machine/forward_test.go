package machine

import "testing"

func TestListeningPort(t *testing.T) {
	for _, test := range []struct {
		name, line string
		port       int
	}{
		{"everywhere", "  0: 00000000:0016 00000000:0000 0A 00000000:00000000", 22},
		{"everywhere, version 6", "  0: 00000000000000000000000000000000:192B 00000000000000000000000000000000:0000 0A 0", 6443},
		{"the guest's own address", "  1: 0202000A:01BB 00000000:0000 0A 0", 443},
		{"loopback only", "  2: 0100007F:094B 00000000:0000 0A 0", 0},
		{"a connection", "  3: 0202000A:0016 0102000A:C0DE 01 0", 0},
		{"the heading", "  sl  local_address rem_address   st tx_queue", 0},
	} {
		if port, _ := listeningPort(test.line); port != test.port {
			t.Errorf("%s: got %d, want %d", test.name, port, test.port)
		}
	}
}
