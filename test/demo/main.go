// Command demo runs the main job on the rig as a CI team would: a pool, a CI
// namespace, a pipeline that acquires a cluster, tests on it and releases it.
package main

import (
	"context"
	"flag"
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
	started := flag.Int64("started", began.Unix(), "when the whole demo began, setting up included (Unix time)")
	topology := flag.String("topology", "crc", "crc, or custom for the quick one")
	flag.Parse()
	total := func() int64 { return time.Now().Unix() - *started }
	if err := run(ctx, began, *topology); err != nil {
		fmt.Fprintf(os.Stderr, "demo: failed after %d s: %v\n", total(), err)
		os.Exit(1)
	}
	fmt.Printf("demo: main job %.0f s, setting up before it %d s\n", time.Since(began).Seconds(), began.Unix()-*started)
	fmt.Printf("demo: passed in %d s\n", total())
}

func run(ctx context.Context, began time.Time, topology string) error {
	scene, ok := scenes[topology]
	if !ok {
		return fmt.Errorf("no topology is named %q: say TOPOLOGY=crc or TOPOLOGY=custom", topology)
	}
	rig, err := rigtest.Connect()
	if err != nil {
		return err
	}
	d := &demo{Rig: rig, scene: scene, began: began}
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
	d.printTimes()
	return nil
}
