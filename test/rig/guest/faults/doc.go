// Package faults names the ways in which a guest can be told to misbehave.
package faults
