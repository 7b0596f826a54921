// Command guestd is the guest's own user space: process 1, its daemon, and the
// commands that talk to it, by the name it is called by.
package main

import (
	"os"

	"opdev.io/guestcluster/test/rig/guest/daemon"
)

func main() { os.Exit(daemon.Main(os.Args)) }
