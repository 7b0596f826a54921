// Package disk handles raw disk images: the partition table, loop devices that
// detach by themselves, mounts that only one thread sees, and sparse copies.
package disk
