package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"opdev.io/guestcluster/test/rigtest"
)

// scene is a topology to show the main job on.
type scene struct {
	pool     string
	patience time.Duration
	setUp    func(context.Context, *demo) error
}

var scenes = map[string]scene{
	"crc":    {pool: "crc-pool", patience: 25 * time.Minute, setUp: setUpCRC},
	"custom": {pool: examplePool, patience: 10 * time.Minute, setUp: setUpCustom},
}

func setUpCustom(ctx context.Context, d *demo) error {
	d.say("building the example's step, applying its Pipeline and pool")
	return d.Apply(ctx, "", "examples/custom-topology/")
}

// setUpCRC does what examples/crc/README.md tells an admin to do.
func setUpCRC(ctx context.Context, d *demo) error {
	d.say("applying examples/crc: namespace, pull secret, pool")
	for _, file := range []string{"namespace.yaml", "pool.yaml"} {
		text, err := os.ReadFile(filepath.Join(d.Root, "examples/crc", file))
		if err != nil {
			return err
		}
		if err := d.ApplyText(ctx, "", string(text)); err != nil {
			return fmt.Errorf("apply %s: %w", file, err)
		}
		if file == "namespace.yaml" {
			if err := d.ApplyText(ctx, poolNamespace, rigtest.PullSecret("pull-secret")); err != nil {
				return fmt.Errorf("apply the pull secret: %w", err)
			}
		}
	}
	return nil
}
