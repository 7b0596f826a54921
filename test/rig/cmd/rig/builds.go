package main

import (
	"context"
	"fmt"

	"opdev.io/guestcluster/test/rig/builds"
)

// order is the order of compiling: what others wait for comes first.
var order = []builds.Program{
	builds.Pause, builds.Etcd, builds.Kube, builds.Containerd, builds.Shim, builds.Runc, builds.CoreDNS, builds.Ko,
}

// compiling is a background run of all builds, one after the other: two at
// once would only take turns on the processors.
type compiling struct {
	programs map[string]*compiled
	after    *compiled
}

type compiled struct {
	done chan struct{}
	dir  string
	err  error
}

func (c *compiled) wait(ctx context.Context) (string, error) {
	select {
	case <-c.done:
		return c.dir, c.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// startBuilds compiles everything and then runs after, which compiles too.
func (r *rig) startBuilds(ctx context.Context, after func(context.Context) error) *compiling {
	c := &compiling{programs: map[string]*compiled{}, after: &compiled{done: make(chan struct{})}}
	for _, p := range order {
		c.programs[p.Name] = &compiled{done: make(chan struct{})}
	}
	go func() {
		defer close(c.after.done)
		for _, p := range order {
			result := c.programs[p.Name]
			result.dir, result.err = r.builder.Ensure(ctx, p)
			close(result.done)
		}
		if after != nil {
			c.after.err = after(ctx)
		}
	}()
	return c
}

// program waits for one program and returns its file.
func (c *compiling) program(ctx context.Context, p builds.Program) (string, error) {
	dir, err := c.programs[p.Name].wait(ctx)
	if err != nil {
		return "", fmt.Errorf("build %s: %w", p.Name, err)
	}
	return dir + "/" + p.Name, nil
}

func (c *compiling) wait(ctx context.Context) error {
	for _, p := range order {
		if _, err := c.program(ctx, p); err != nil {
			return err
		}
	}
	_, err := c.after.wait(ctx)
	return err
}
