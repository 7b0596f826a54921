package cel_test

import (
	"testing"

	"opdev.io/guestcluster/test/internal/server"
)

var shared *server.Server

func TestMain(m *testing.M) {
	server.Main(m, server.Options{}, &shared)
}
