// Command pause holds the namespaces of a pod open. It is small because every
// pod runs one.
package main
