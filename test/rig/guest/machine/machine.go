package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"opdev.io/guestcluster/test/rig/guest/disk"
)

const (
	// RebootStatus is the exit status of an init program that wants a reboot.
	RebootStatus = 100

	detachTimeout = 20 * time.Second
	powerTimeout  = 8 * time.Second
	lockTimeout   = 15 * time.Second
)

// Config is one machine.
type Config struct {
	// Disk is the raw image, changed in place.
	Disk string
	Name string
	// Faults are handed to the guest's daemon; see its list.
	Faults []string
	// Listen is the outside address for the forwarded ports.
	Listen string
	// Console takes what the guest and the machine print.
	Console io.Writer
	// Reset kills the guest and boots it again.
	Reset <-chan os.Signal
}

// Run boots the disk until it powers off or the context ends, which presses
// the power button and, soon after, kills.
func Run(ctx context.Context, config Config) error {
	lock, err := lockDisk(ctx, config.Disk)
	if err != nil {
		return err
	}
	defer lock.Close()
	network, err := newNetwork(config)
	if err != nil {
		return err
	}
	defer network.close()
	for {
		again, err := boot(ctx, config, network)
		if err != nil || !again {
			return err
		}
		config.printf("reboot")
	}
}

// boot runs the guest once and says whether it wants to be booted again.
func boot(ctx context.Context, config Config, network *network) (again bool, err error) {
	drives, err := attachDrives(config.Disk)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, drives.release()) }()
	guest, err := start(config, drives)
	if err != nil {
		return false, err
	}
	defer guest.kill()
	if err := network.connect(guest.pid()); err != nil {
		return false, err
	}
	if err := guest.proceed(); err != nil {
		return false, err
	}
	stopForwarding := network.forward(guest.pid())
	defer stopForwarding()
	config.printf("boot %s as process %d", config.Disk, guest.pid())
	return guest.wait(ctx, config.Reset)
}

func (c Config) printf(format string, args ...any) {
	fmt.Fprintf(c.Console, "[%s] machine %s: %s\n", time.Now().UTC().Format("15:04:05.000"), c.Name, fmt.Sprintf(format, args...))
}

// lockDisk keeps two machines from one disk: that would destroy it.
func lockDisk(ctx context.Context, image string) (*os.File, error) {
	f, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open the disk: %w", err)
	}
	for deadline := time.Now().Add(lockTimeout); ; {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			// The guest of a killed machine may take a moment to die.
			if err := disk.WaitFree(image, detachTimeout); err != nil {
				return nil, errors.Join(err, f.Close())
			}
			return f, nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return nil, errors.Join(fmt.Errorf("lock the disk %s: another guest runs from it: %w", image, err), f.Close())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// drives are /dev/vda and /dev/vda4: two views of one image, because not every
// kernel reads the partitions of a loop device.
type drives struct{ disk, root *disk.Loop }

func attachDrives(image string) (*drives, error) {
	part, err := disk.Partition(image, disk.Root)
	if err != nil {
		return nil, err
	}
	whole, err := disk.Attach(image, disk.Extent{})
	if err != nil {
		return nil, err
	}
	root, err := disk.Attach(image, part)
	if err != nil {
		whole.Close()
		return nil, err
	}
	return &drives{disk: whole, root: root}, nil
}

func (d *drives) release() error {
	d.disk.Close()
	d.root.Close()
	return errors.Join(d.root.WaitDetached(detachTimeout), d.disk.WaitDetached(detachTimeout))
}

// environment is what the first stage is told, in its environment.
func environment(config Config, d *drives) []string {
	return []string{
		stageVariable + "=1",
		"GUEST_NAME=" + config.Name,
		"GUEST_FAULTS=" + strings.Join(config.Faults, ","),
		fmt.Sprintf("GUEST_DISK=%d", d.disk.Number),
		fmt.Sprintf("GUEST_ROOT=%d", d.root.Number),
	}
}
