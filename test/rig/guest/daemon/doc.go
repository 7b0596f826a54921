// Package daemon is the guest's user space beside the real programs: process 1,
// units and their systemctl, NetworkManager and its nmcli, and the disk and
// name tools, all in one binary that chooses by the name it is called by.
package daemon
