// Command steps is the image of every Task: one binary, one step per subcommand.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"opdev.io/guestcluster/pkg/steps"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := steps.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
