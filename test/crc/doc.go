// Package crc tests the step fix-up-guest on the rig's guest: a disk with a real
// SSH server and a real API server, without Kubernetes around it. It needs root.
package crc
