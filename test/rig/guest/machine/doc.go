// Package machine is the hardware of a guest: it boots the init program of a
// disk in namespaces of its own, joins it to a network of two (the guest and
// its gateway), forwards ports and names, and resets or stops it.
package machine
