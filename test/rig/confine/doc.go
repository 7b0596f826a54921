// Package confine keeps the rig apart from the machine: one process with its
// own network, PID and mount namespaces is the parent of everything that runs,
// so that killing it ends the rig and every mount of it.
package confine
