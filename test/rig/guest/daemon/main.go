package daemon

import (
	"fmt"
	"os"
	"path/filepath"
)

// tools run in the caller's process.
var tools = map[string]func([]string) int{
	"growpart": growpart, "xfs_growfs": xfsGrow, "blkid": blkid, "host": lookUp, "journalctl": journal,
}

// remote names are answered by the daemon.
var remote = map[string]bool{"systemctl": true, "nmcli": true, "reboot": true, "poweroff": true, "shutdown": true}

// Names are what the binary must be linked as.
func Names() []string {
	names := []string{"init"}
	for name := range tools {
		names = append(names, name)
	}
	for name := range remote {
		names = append(names, name)
	}
	return names
}

// Main runs what the name of the program says and returns the exit status.
func Main(args []string) int {
	name := filepath.Base(args[0])
	switch {
	case tools[name] != nil:
		return tools[name](args[1:])
	case remote[name]:
		return askDaemon(append([]string{name}, args[1:]...))
	case name == "init":
		return runInit()
	case name == "guestd":
		return runDaemon()
	}
	fmt.Fprintf(os.Stderr, "guestd: %q is none of its names\n", name)
	return 2
}
