// Package fakeguest is a CRC guest for tests of steps: an SSH server that plays
// the commands of pkg/steps/fixupguest on files in memory, and an API server
// behind it that reacts as OpenShift does. It can be told to misbehave. It is
// no shell: a command that it does not know is an error.
package fakeguest
