// Command demo runs the main job on the rig as a CI team would: a pool, a CI
// namespace, a pipeline that acquires a cluster, tests on it and releases it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"opdev.io/guestcluster/test/rigtest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	began := time.Now()
	if err := run(ctx, began); err != nil {
		fmt.Fprintf(os.Stderr, "demo: failed after %.0f s: %v\n", time.Since(began).Seconds(), err)
		os.Exit(1)
	}
	fmt.Printf("demo: passed in %.0f s\n", time.Since(began).Seconds())
}

func run(ctx context.Context, began time.Time) error {
	rig, err := rigtest.Connect()
	if err != nil {
		return err
	}
	d := &demo{Rig: rig, began: began}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"set up the pool's and the CI's namespaces", d.setUp},
		{"wait for a warm cluster", d.waitForSpare},
		{"run examples/ci-pipeline.yaml", d.runPipeline},
		{"check that the cluster was given back and replaced", d.checkReplaced},
	} {
		d.say("--- " + step.name)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	d.printTimeline()
	return nil
}
