package apiserver

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"

	"opdev.io/guestcluster/test/rig/child"
)

func (s *Server) run(binary string, args []string) error {
	p, err := child.Start(binary, filepath.Join(s.Dir, args[0]+".log"), args)
	if err != nil {
		return err
	}
	s.processes = append(s.processes, p)
	return nil
}

func (s *Server) waitReady(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(s.Config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		if err == nil {
			return nil
		}
		for _, p := range s.processes {
			if p.Ended() {
				return fmt.Errorf("%s ended: %s", p.Name, p.Tail())
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the API server: %w (last answer: %w; logs in %s)", ctx.Err(), err, s.Dir)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
