// Package step says what a step is: a command with flags, an exit code for
// each class of error, results that are written once, and the one rule for
// trying again: a classified error is final, any other is tried again.
package step
