// Command launcher runs one guest from a disk image, as virt-launcher does: it
// forwards ports 22, 80, 443 and 6443 while the guest listens on them. SIGTERM
// presses the power button, SIGHUP the reset button; it ends with the guest.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"opdev.io/guestcluster/test/rig/guest/machine"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "launcher:", err)
		os.Exit(1)
	}
}

func run() error {
	if machine.IsStage() {
		return machine.Stage()
	}
	config := machine.Config{Console: os.Stdout}
	var faults string
	flag.StringVar(&config.Disk, "disk", "", "raw disk image or block device, changed in place")
	flag.StringVar(&config.Name, "name", "guest", "name for messages")
	flag.StringVar(&faults, "faults", "", "faults of this guest, comma separated")
	flag.StringVar(&config.Listen, "listen", "0.0.0.0", "address to forward ports from")
	flag.Parse()
	if faults != "" {
		config.Faults = strings.Split(faults, ",")
	}
	reset := make(chan os.Signal, 1)
	signal.Notify(reset, syscall.SIGHUP)
	config.Reset = reset
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return machine.Run(ctx, config)
}
