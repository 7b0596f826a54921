package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"opdev.io/guestcluster/test/rig/guest/cluster"
	"opdev.io/guestcluster/test/rig/guest/faults"
)

// rebootStatus tells the machine to boot again (machine.RebootStatus).
const rebootStatus = 100

// daemon holds the running system. Its context ends with the system.
type daemon struct {
	ctx     context.Context
	end     func(status int)
	faults  faults.Set
	units   *units
	network *manager
	cluster *cluster.Cluster

	pods context.CancelFunc // set once static pods run: they outlive the kubelet
}

func runDaemon() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ended := make(chan int, 1)
	d := &daemon{ctx: ctx, end: func(status int) {
		select {
		case ended <- status:
		default:
		}
	}}
	if err := d.boot(); err != nil {
		d.printf("boot: %v", err)
		return 1
	}
	select {
	case <-ctx.Done():
		d.printf("power off")
		return 0
	case status := <-ended:
		return status
	}
}

func (d *daemon) boot() error {
	var err error
	if d.faults, err = faults.Read("/etc/rig/faults", "/run/rig/faults"); err != nil {
		return err
	}
	d.printf("boot, faults %v", d.faults)
	if d.cluster, err = cluster.New(d.faults); err != nil {
		return err
	}
	d.network = &manager{faults: d.faults}
	d.units = newUnits(d)
	if err := errors.Join(d.firstBoot(), d.prepare()); err != nil {
		return err
	}
	if err := d.serve(); err != nil {
		return err
	}
	for _, u := range d.units.all {
		if u.enabled() {
			if err := d.units.start(u); err != nil {
				d.printf("start %s: %v", u.name, err)
			}
		}
	}
	d.printf("booted")
	return nil
}

func (d *daemon) printf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "[%s] guest: %s\n", time.Now().UTC().Format("15:04:05.000"), fmt.Sprintf(format, args...))
}
