// Package virt is what steps know of virtual machines and their disks: clients
// for them, where a disk stands, which trouble passes and which is final, and
// how progress is told. It decides nothing about the guest inside.
package virt
