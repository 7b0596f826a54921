package image

import (
	"testing"

	"opdev.io/guestcluster/test/rig/guest/daemon"
)

func TestTheDaemonHasItsNames(t *testing.T) {
	names := map[string]bool{}
	for _, name := range daemon.Names() {
		names[name] = true
	}
	for _, name := range []string{"init", "systemctl", "nmcli", "growpart", "xfs_growfs", "blkid", "host", "journalctl", "reboot"} {
		if !names[name] {
			t.Errorf("the image would lack %s", name)
		}
	}
}
