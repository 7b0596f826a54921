package faults_test

import (
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"opdev.io/guestcluster/test/internal/broker"
	"opdev.io/guestcluster/test/internal/server"
)

var shared *server.Server

// counted is what was tried; the last line of make faults says it.
var counted struct{ crashes, watches, traces atomic.Int64 }

// whole says whether every point is tried, or a fixed sample of them.
func whole() bool { return os.Getenv("FAULTS") == "all" }

func TestMain(m *testing.M) {
	flag.Parse()
	if !whole() {
		if err := flag.Set("rapid.checks", "5"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	// The lists that start an informer must be lists: the past is told in them.
	if err := os.Setenv("KUBE_FEATURE_WatchListClient", "false"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	server.Main(counting{m}, server.Options{Tekton: true, ControllerManager: true, Prepare: broker.Install}, &shared)
}

// counting prints what was tried after the tests.
type counting struct{ *testing.M }

// Run implements server.Runner.
func (c counting) Run() int {
	code := c.M.Run()
	fmt.Printf("faults: %d crash points, %d watch points, %d random traces\n",
		counted.crashes.Load(), counted.watches.Load(), counted.traces.Load())
	return code
}
