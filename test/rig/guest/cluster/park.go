package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"opdev.io/guestcluster/test/rig/child"
)

const (
	parkTimeout = 3 * time.Minute
	endTimeout  = 20 * time.Second
)

// Content is what is put into the parked cluster beside what every one has.
type Content struct {
	CRDs    []map[string]any
	AdminCA string
	CoreKey string
}

// Park runs etcd and the API server once below root, fills them and ends them
// in order, so that the data directory is what an installation leaves.
func Park(ctx context.Context, root Root, kube, etcd, log string, content Content) (err error) {
	ctx, cancel := context.WithTimeout(ctx, parkTimeout)
	defer cancel()
	free, err := child.FreePorts(3)
	if err != nil {
		return err
	}
	ports := Ports{API: free[0], Etcd: free[1], EtcdPeer: free[2]}
	store, err := child.Start(etcd, log+"-etcd", root.EtcdArgs(ports))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.End(endTimeout)) }()
	server, err := child.Start(kube, log+"-kube-apiserver", root.APIServerArgs(ports, "127.0.0.1", nil))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.End(endTimeout)) }()
	url := fmt.Sprintf("https://localhost:%d", ports.API)
	for !ready(ctx, root, url) {
		if !pause(ctx, 100*time.Millisecond) || store.Ended() || server.Ended() {
			return fmt.Errorf("wait for the API server: it or etcd ended, or time did (%v); logs: %s-*", ctx.Err(), log)
		}
	}
	client, err := newAPI(root.Config(url))
	if err != nil {
		return err
	}
	return fillCluster(ctx, client, content)
}
