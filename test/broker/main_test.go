package broker_test

import (
	"testing"

	"opdev.io/guestcluster/test/internal/broker"
	"opdev.io/guestcluster/test/internal/server"
)

var shared *server.Server

func TestMain(m *testing.M) {
	server.Main(m, server.Options{Tekton: true, ControllerManager: true, Prepare: broker.Install}, &shared)
}
