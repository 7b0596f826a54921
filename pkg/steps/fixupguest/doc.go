// Package fixupguest is the step fix-up-guest: it makes a cluster of its own of
// a CRC disk that has just booted, over SSH and through the guest's API. Its
// phases stand in a table and are safe to repeat: each reads before it writes,
// and nothing is generated here that a killed step would lose.
package fixupguest
