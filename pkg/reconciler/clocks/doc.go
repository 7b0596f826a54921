// Package clocks hands the reconcilers the clock by which they decide: the real
// one, or a test's. It never makes anything wait.
package clocks
