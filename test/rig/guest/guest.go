package guest

import (
	"context"
	"errors"
)

// Options say which guest to start.
type Options struct {
	// Disk is a raw image that the guest changes in place.
	Disk string
	// Name is only for messages.
	Name string
	// Faults of this start, besides those in the disk (README.md).
	Faults []string
	// Address to listen on; empty is a free address of 127.0.0.0/8.
	Address string
}

// Guest is a running guest.
type Guest struct {
	// Address answers on ports 22, 80, 443 and 6443 while the guest does.
	Address string
}

// Start runs a guest and returns before it has booted. It needs root. The
// guest ends with the calling process at the latest.
func Start(ctx context.Context, options Options) (*Guest, error) {
	return nil, errors.New("start the guest: not yet")
}

// Reboot is the reset button: it kills everything and boots the same disk.
func (g *Guest) Reboot(ctx context.Context) error { return errors.New("reboot the guest: not yet") }

// Stop kills the guest, detaches the disk and returns when nothing is left.
func (g *Guest) Stop() error { return errors.New("stop the guest: not yet") }

// Done is closed when the guest has ended.
func (g *Guest) Done() <-chan struct{} { return nil }

// Console is what the guest printed so far, bounded to the last 64 KiB.
func (g *Guest) Console() string { return "" }
