package daemon

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"opdev.io/guestcluster/test/rig/guest/faults"
)

const kubeletDelay = 500 * time.Millisecond

// startKubelet also starts the static pods, which go on when it stops.
func (d *daemon) startKubelet() (stop context.CancelFunc, err error) {
	if d.faults.Has(faults.KubeletFails) {
		return nil, errors.New("the service did not take the steps required by its unit configuration")
	}
	log, err := os.OpenFile("/var/log/units/kubelet.service.log", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	d.cluster.LogTo(io.MultiWriter(os.Stderr, log))
	select {
	case <-d.ctx.Done():
		return nil, d.ctx.Err()
	case <-time.After(d.faults.Delay(kubeletDelay)):
	}
	if d.pods == nil {
		ctx, cancel := context.WithCancel(d.ctx)
		d.pods = cancel
		go d.cluster.RunStaticPods(ctx)
	}
	ctx, cancel := context.WithCancel(d.ctx)
	go d.cluster.RunKubelet(ctx)
	return cancel, nil
}
