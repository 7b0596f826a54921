package main

import (
	"context"
	"fmt"

	"opdev.io/guestcluster/test/rig/confine"
)

func (r *rig) status(ctx context.Context) error {
	pid, running := r.state.Pid()
	if !running {
		fmt.Println(confine.ErrDown)
		return nil
	}
	fmt.Printf("init process %d, state %s, cache %s\n", pid, r.state, r.builder.Cache)
	for _, variable := range r.variables() {
		fmt.Println(variable)
	}
	for _, args := range [][]string{{"get", "nodes", "-o", "wide"}, {"get", "pods", "-A", "-o", "wide"}} {
		out, err := r.kubectl(ctx, nil, args...)
		if err != nil {
			return err
		}
		fmt.Printf("%s", out)
	}
	return nil
}
